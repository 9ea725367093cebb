"""A maze with exactly one way from the first cell to the last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from buttress.lab.tasks.base import Rule, Task, check_share, check_size

MOVES = {"R": (0, 1), "D": (1, 0), "L": (0, -1), "U": (-1, 0)}
_MIRROR = str.maketrans("RDLU", "DRUL")


@dataclass(frozen=True)
class Maze(Task):
    """Find the way through a perfect maze of `size` x `size` cells, top left to bottom right.

    A body has one character per cell, row by row: 0 closed to the right and below, 1 open to the
    right, 2 open below, 3 both. The answer is the shortest way as moves ``RDLU``, filled up with
    ``.`` to `longest` moves; mazes with a longer way are not asked. A perfect maze is a spanning
    tree, so the way is the only one without a step back.

    Wrong rules: the way of the transposed maze's owner (R and D, L and U swapped), the way read
    backwards, straight right and then down.

    Source: the test bed of arXiv 2602.06717 (17 x 17 there, a grid of 8 x 8 cells and their walls).

    Examples
    --------
    >>> Maze(size=3, longest=6).solve("212312120=")
    'DRRD..'
    """

    name: ClassVar[str] = "maze"
    size: int = 4
    longest: int = 10
    share: float = 1.0

    def __post_init__(self) -> None:
        check_size("size", self.size, 3, "so that there is something to find")
        check_size("longest", self.longest, 2 * self.size - 2, "the shortest way there can be")
        check_share(self.share)

    @property
    def symbols(self) -> str:
        return "0123RDLU.="

    @property
    def rules(self) -> Mapping[str, Rule]:
        straight = "R" * (self.size - 1) + "D" * (self.size - 1)
        return {
            "way": lambda body: self._fill(self.way(body)),
            "mirrored": lambda body: self._fill(self.way(body).translate(_MIRROR)),
            "backwards": lambda body: self._fill(self.way(body)[::-1]),
            "straight": lambda body: self._fill(straight),
        }

    def asks(self, body: str) -> bool:
        return len(self.way(body)) <= self.longest and super().asks(body)

    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        """Yield mazes whose borders were opened in random order."""
        while True:
            yield self._grown(generator)

    def way(self, body: str) -> str:
        """Return the moves from the first cell to the last, or an empty text if there are none."""
        before: dict[int, tuple[int, str]] = {0: (0, "")}
        queue, goal = [0], self.size**2 - 1
        for cell in queue:
            for move in MOVES:
                there = self._beyond(body, cell, move)
                if there is not None and there not in before:
                    before[there] = (cell, move)
                    queue.append(there)
        moves, cell = [], goal
        while cell and cell in before:
            cell, move = before[cell]
            moves.append(move)
        return "".join(reversed(moves))

    def _beyond(self, body: str, cell: int, move: str) -> int | None:
        """Return the cell on the other side of an open border."""
        down, right = MOVES[move]
        row, column = cell // self.size + down, cell % self.size + right
        if not (0 <= row < self.size and 0 <= column < self.size):
            return None
        there = row * self.size + column
        opening = 1 if right else 2
        return there if int(body[min(cell, there)]) & opening else None

    def _grown(self, generator: np.random.Generator) -> str:
        """Open borders in random order wherever they join two parts (Kruskal's tree)."""
        size = self.size
        borders = [(cell, cell + 1, 1) for cell in range(size**2) if (cell + 1) % size]
        borders += [(cell, cell + size, 2) for cell in range(size**2 - size)]
        part, cells = list(range(size**2)), [0] * size**2
        for place in generator.permutation(len(borders)):
            one, other, opening = borders[place]
            if part[one] != part[other]:
                cells[one] |= opening
                joined, kept = part[other], part[one]
                part = [kept if each == joined else each for each in part]
        return "".join(map(str, cells))

    def _fill(self, way: str) -> str:
        return way[: self.longest].ljust(self.longest, ".")

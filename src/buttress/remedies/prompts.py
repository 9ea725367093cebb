"""What is remembered of each prompt between its visits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.arrays import to_numpy
from buttress.remedies.view import View

# Of prompts that nobody asked for yet, and of those that the table does not hold.
UNASKED, ABSENT = -2, -1
# A sum of nothing is divided by this.
LEAST = 1e-300


class Rows(NamedTuple):
    """Moments of many sets at once. An empty set has count 0.

    `count`, `mean` and `m2` have the shape ``(group,)``, or ``(memory, group)``; `low` and `high`,
    the range of all that was seen (infinite of nothing), ``(group,)``.
    """

    count: Any
    mean: Any
    m2: Any
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __add__(self, other: Any) -> Rows:
        count = self.count + other.count
        share = other.count / np.maximum(count, LEAST)
        gap = other.mean - self.mean
        return Rows(
            count,
            self.mean + gap * share,
            self.m2 + other.m2 + gap * gap * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def pick(self, groups: Any) -> Rows:
        """Return some of the sets."""
        return Rows(*(part[..., groups] for part in self))


def empty(shape: Any) -> Rows:
    """Return empty sets; the last part of the shape counts groups."""
    zero = np.zeros(shape)
    nothing = np.full(zero.shape[-1], np.inf)
    return Rows(zero, zero, zero, nothing, -nothing)


def of_groups(view: View) -> Rows:
    """Return the moments of the rewards of each group of the batch, shape ``(group,)``."""
    memo = view.groups.memo
    if Rows not in memo:
        memo[Rows] = _of_groups(view)
    return memo[Rows]


def _of_groups(view: View) -> Rows:
    n = len(view.groups)
    if len(view.blocks) == 1 and len(view.blocks[0]) == n:
        [block] = view.blocks
        mean, m2 = to_numpy(block.mean)[:, 0], to_numpy(block.squares)[:, 0]
    else:
        mean, m2 = np.zeros(n), np.zeros(n)
        for block in view.blocks:
            mean[block.index] = to_numpy(block.mean)[:, 0]
            m2[block.index] = to_numpy(block.squares)[:, 0]
    summary = view.summary
    low, high = summary.low, summary.high
    count = summary.scorable.astype(np.float64)
    if n and not count.min():
        seen = count > 0
        low, high = np.where(seen, low, np.inf), np.where(seen, high, -np.inf)
    return Rows(count, mean, m2, low, high)


class PromptTable:
    """Moments per prompt; prompts are found by their identity, groups without one are forgotten.

    Parameters
    ----------
    fades
        At each visit what is known so far counts this many times as much; one memory is kept for
        each of these factors.
    """

    def __init__(self, fades: Sequence[float] = (1.0,)) -> None:
        self._fades = np.array(fades, dtype=np.float64)[:, None]
        self._clear()

    def _clear(self) -> None:
        self._row: dict[Any, int] = {}
        # a row per prompt, with room for more: count, mean and m2 of each memory, low, high
        self._table = self._room(1)
        self._forget_last()

    def _room(self, n: int) -> NDArray[np.float64]:
        table = np.zeros((n, 3 * len(self._fades) + 2))
        table[:, -2], table[:, -1] = np.inf, -np.inf
        return table

    def _forget_last(self) -> None:
        # labels of the groups last asked for, and the row of each code (the last one: of code -1)
        self._asked: tuple[Any, NDArray[np.int64]] = (None, np.zeros(0, dtype=np.int64))
        self._found: tuple[Groups, NDArray[np.int64], Rows] | None = None

    def __len__(self) -> int:
        return len(self._row)

    def find(self, groups: Groups, memory: int = 0) -> Rows:
        """Return what is known of each group's prompt, shape ``(group,)``; empty where nothing."""
        count, mean, m2, low, high = self.find_all(groups)
        return Rows(count[memory], mean[memory], m2[memory], low, high)

    def find_all(self, groups: Groups) -> Rows:
        """Return what each memory knows, shape ``(memory, group)``."""
        return self._find(groups)[1]

    def learn(self, groups: Groups, seen: Rows) -> None:
        """Fade what is known of the visited prompts and add what was seen of each group.

        Groups of one prompt in one step count as one visit. Groups where nothing was seen, or
        whose prompt is unknown, do not count.
        """
        rows, known = self._find(groups)
        if not len(rows):
            return
        if rows.min() < 0 or not seen.count.min():
            real = (seen.count > 0) & (groups.prompt >= 0)
            rows, seen = self._enter(groups, real)[real], seen.pick(real)
            if not len(rows):
                return
            known = self._take(rows)
        if (rows[1:] <= rows[:-1]).any():
            distinct, place = np.unique(rows, return_inverse=True)
            if len(distinct) < len(rows):
                rows, seen = distinct, _sum_by(seen, place, len(distinct))
                known = self._take(rows)
        fades = self._fades
        self._put(rows, known._replace(count=known.count * fades, m2=known.m2 * fades) + seen)
        self._found = None

    def merge(self, other: PromptTable) -> None:
        """Add what another table knows."""
        if not len(other):
            return
        rows = self._grow(list(other._row))
        self._put(rows, self._take(rows) + other._take(np.arange(len(other))))
        self._forget_last()

    def state(self) -> dict[str, Any]:
        """Return the table as lists: of each prompt, for each memory, the parts of `Rows`."""
        parts = self._take(np.arange(len(self)))
        wide = [np.broadcast_to(part, parts.count.shape).T for part in parts]
        return {
            "prompts": [_plain(one) for one in self._row],
            "moments": np.stack(wide, axis=-1).tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self._clear()
        labels = [tuple(one) if isinstance(one, list) else one for one in state["prompts"]]
        moments = np.array(state["moments"], dtype=np.float64).reshape(-1, len(self._fades), 5)
        count, mean, m2, low, high = moments.transpose(2, 1, 0)
        self._put(self._grow(labels), Rows(count, mean, m2, low[0], high[0]))

    def _take(self, rows: NDArray[np.int64]) -> Rows:
        """Return these rows of the table; those that are negative are empty."""
        n = len(self._fades)
        taken = self._table.take(rows, axis=0).T.copy()
        if len(rows) and rows.min() < 0:
            taken[:, rows < 0] = [[0.0]] * 3 * n + [[np.inf], [-np.inf]]
        return Rows(taken[:n], taken[n : 2 * n], taken[2 * n : -2], taken[-2], taken[-1])

    def _put(self, rows: NDArray[np.int64], new: Rows) -> None:
        n = len(self._fades)
        table = np.empty((3 * n + 2, len(rows)))
        table[:n], table[n : 2 * n], table[2 * n : -2], table[-2], table[-1] = new
        self._table[rows] = table.T

    def _find(self, groups: Groups) -> tuple[NDArray[np.int64], Rows]:
        """Return the row of each group's prompt, `ABSENT` where there is none, and its content."""
        if self._found is None or self._found[0] is not groups:
            rows = self._index(groups)
            self._found = (groups, rows, self._take(rows))
        return self._found[1:]

    def _index(self, groups: Groups) -> NDArray[np.int64]:
        labels, codes = groups.prompt_labels, groups.prompt
        if self._asked[0] is not labels:
            row_of = np.full(len(labels) + 1, UNASKED)
            row_of[-1] = ABSENT
            if len(labels) <= len(codes):
                row_of[:-1] = self._look_up(labels)
            self._asked = (labels, row_of)
        row_of = self._asked[1]
        rows = row_of.take(codes)
        # parts of a run share its labels, of which each names a few only
        if len(rows) and rows.min() == UNASKED:
            new = _distinct(codes[rows == UNASKED])
            row_of[new] = self._look_up(labels[new])
            rows = row_of.take(codes)
        return rows

    def _look_up(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        found = map(self._row.get, labels.tolist(), repeat(ABSENT))
        return np.fromiter(found, np.int64, len(labels))

    def _enter(self, groups: Groups, real: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the row of each group's prompt, with new rows for those that have none."""
        labels, row_of = self._asked
        fresh = _distinct(groups.prompt[real & (row_of.take(groups.prompt) < 0)])
        row_of[fresh] = self._grow(labels[fresh].tolist())
        return row_of.take(groups.prompt)

    def _grow(self, labels: list[Any]) -> NDArray[np.int64]:
        """Return the rows of these prompts; those that are new get an empty one."""
        row = self._row
        rows = np.array([row.setdefault(label, len(row)) for label in labels], dtype=np.int64)
        missing = len(row) - len(self._table)
        if missing > 0:
            more = self._room(max(missing, len(self._table)))
            self._table = np.concatenate([self._table, more])
        return rows


def _sum_by(seen: Rows, place: NDArray[np.int64], n: int) -> Rows:
    """Return the sum over the sets of each place."""
    count = np.bincount(place, weights=seen.count, minlength=n)
    mean = np.bincount(place, weights=seen.count * seen.mean, minlength=n) / count
    apart = seen.mean - mean[place]
    m2 = np.bincount(place, weights=seen.m2 + seen.count * apart * apart, minlength=n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, place, seen.low)
    np.maximum.at(high, place, seen.high)
    return Rows(count, mean, m2, low, high)


def _distinct(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct codes, ascending."""
    return codes if (codes[1:] > codes[:-1]).all() else np.unique(codes)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label

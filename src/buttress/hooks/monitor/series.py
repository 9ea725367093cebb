"""The whole course of a run in at most 64 blocks of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.hooks.monitor.step_statistics import StepStatistics
from buttress.measures.statistics import ratio

BLOCKS = 64
_COLUMNS = 6


class CourseTable(NamedTuple):
    """One row per block of steps, arrays of shape ``(block,)``; NaN where nothing is known."""

    step: NDArray[np.int64]  # the first of the block
    acr: NDArray[np.float64]
    reward: NDArray[np.float64]  # mean
    correct: NDArray[np.float64]  # mean


class Series:
    """Sums by block; blocks are joined in pairs whenever there would be more than `BLOCKS`.

    Blocks hold the steps ``width * k + 1`` to ``width * (k + 1)``, so that the same steps give the
    same blocks on every rank.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._sums: dict[int, list[float]] = {}

    def add(self, step: int, found: StepStatistics) -> None:
        """Take in what one block, or a part of it, showed."""
        right = found.pairs.get("correct", (0.0, 0.0))
        self._enter(step, [*found.pairs["reward"], *right, found.tied, found.eligible])
        self._shorten()

    def merge(self, other: Series) -> None:
        """Take in the series of another rank."""
        while self.width < other.width:
            self._double()
        for key, sums in other._sums.items():
            self._enter(key * other.width + 1, sums)
        self._shorten()

    def table(self) -> CourseTable:
        """Return the blocks in order."""
        rows = sorted(self._sums.items())
        acr, reward, correct = (
            np.array([ratio(row[at], row[at + 1]) for _, row in rows]) for at in (4, 0, 2)
        )
        step = np.array([key * self.width + 1 for key, _ in rows], dtype=np.int64)
        return CourseTable(step, acr, reward, correct)

    def _enter(self, step: int, sums: Iterable[float]) -> None:
        row = self._sums.setdefault((step - 1) // self.width, [0.0] * _COLUMNS)
        for at, value in enumerate(sums):
            row[at] += value

    def _shorten(self) -> None:
        while len(self._sums) > BLOCKS:
            self._double()

    def _double(self) -> None:
        joined: dict[int, list[float]] = {}
        for key, sums in self._sums.items():
            row = joined.setdefault(key // 2, [0.0] * _COLUMNS)
            for at, value in enumerate(sums):
                row[at] += value
        self.width, self._sums = self.width * 2, joined

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        return {"width": self.width, "blocks": [[key, *row] for key, row in self._sums.items()]}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Series:
        """Return the series that `state` was taken of."""
        series = cls(int(state["width"]))
        series._sums = {int(key): [float(one) for one in row] for key, *row in state["blocks"]}
        return series

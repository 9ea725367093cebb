"""The base of estimators that read a reward as a success rate between two levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Self

import numpy as np

from buttress.measures.summary import GroupSummary
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator


@dataclass(kw_only=True, eq=False)
class LevelEstimator(Estimator):
    """An estimator that needs to know what a wrong and what a right answer is worth.

    `bounds` are these two rewards. By default they are (0, 1), widened to the lowest and the
    highest reward seen so far, so that {0, 1}, {-1, 1} and {0, 2} all come out right once both
    levels have been seen; what has been seen is part of the state.
    """

    batchwide = True

    bounds: tuple[float, float] | None = None

    def check(self) -> None:
        super().check()
        if self.bounds is not None:
            self.bounds = options.bounds("bounds", self.bounds, -1e9, 1e9)
            options.number("bounds[1]", self.bounds[1], self.bounds[0], above=True)
        self._seen = (inf, -inf)

    def prepare(self, batch: Batch) -> None:
        self._seen = (min(self._seen[0], batch.low), max(self._seen[1], batch.high))

    @property
    def levels(self) -> tuple[float, float]:
        """What a wrong and a right answer are worth."""
        if self.bounds is not None:
            return self.bounds
        return min(0.0, self._seen[0]), max(1.0, self._seen[1])

    def unit(self, block: Dense, values: Any) -> Any:
        """Return rewards on the scale where wrong is 0 and right is 1, clipped to it."""
        low, high = self.levels
        return block.clip((values - low) / (high - low), 0.0, 1.0)

    def success_rate(self, block: Dense) -> Any:
        """Return the mean success of each group, shape ``(group, 1)``."""
        return self.unit(block, block.mean)

    def is_at(self, block: Dense | GroupSummary, level: float) -> np.ndarray:
        """Return which tied groups have this reward, on the host."""
        return block.tied & self.tolerance.equal(
            np.minimum(block.low, level), np.maximum(block.high, level)
        )

    def _state(self) -> dict[str, Any]:
        return {"seen": [one if isfinite(one) else None for one in self._seen]}

    def _restore(self, state: Mapping[str, Any]) -> None:
        low, high = state["seen"]
        self._seen = (inf if low is None else low, -inf if high is None else high)

    def _absorb(self, other: Self) -> None:
        self._seen = (min(self._seen[0], other._seen[0]), max(self._seen[1], other._seen[1]))

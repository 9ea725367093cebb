"""The base of estimators that read a reward as a success rate between two levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.arrays import to_numpy
from buttress.measures.summary import GroupSummary
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.batch_norm import group_moments
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.moments import Moments
from buttress.remedies.success import RIGHT, WRONG, Success, check_success, verdict_means, verdicts
from buttress.remedies.view import View


@dataclass(kw_only=True, eq=False)
class LevelEstimator(Estimator):
    """An estimator that needs to know what a wrong and what a right answer is worth.

    `bounds` are these two rewards. By default they are (0, 1), widened to the lowest and the
    highest reward seen so far, so that {0, 1}, {-1, 1} and {0, 2} all come out right once both
    levels have been seen; what has been seen is part of the state.

    A constant bonus makes a wrong answer look half right. So by default (`success` "correct") the
    column `correct`, where it is known, decides what is wrong, what is right and how often a prompt
    is solved; "reward" goes by the levels alone. Without the column both are the same.
    """

    batchwide = True

    bounds: tuple[float, float] | None = None
    success: Success = "correct"

    def check(self) -> None:
        super().check()
        check_success(self.success)
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

    def successes(self, block: Dense) -> Any:
        """Return the success of each sample in cells."""
        by_reward = self.unit(block, block.rewards)
        correct = block.column("correct") if self.success == "correct" else None
        if correct is None:
            return by_reward
        known = ~block.xp.isnan(correct)
        correct = block.xp.where(known, correct, block.zero)
        return block.xp.where(known, block.clip(correct, 0.0, 1.0), by_reward)

    def success_rate(self, block: Dense) -> Any:
        """Return the mean success of each group, shape ``(group, 1)``."""
        by_reward = self.unit(block, block.mean)
        verdict = verdict_means(block.groups, self.success)
        if verdict is None:
            return by_reward
        mean, known = (block.lift(one[block.index]) for one in verdict)
        return block.xp.where(known, mean, by_reward)

    def rate_moments(self, view: View) -> dict[str, Moments]:
        """Return batch statistics of the success rates: by reward, and by verdict where known."""
        verdict = verdict_means(view.groups, self.success)
        if verdict is None:
            return {"mean": group_moments(view, lambda block: block.mean)}
        mean, known = verdict
        by_reward = Moments(0, 0.0, 0.0)
        for block in view.blocks:
            open_ = (block.scorable >= 1) & ~known[block.index]
            by_reward += Moments.of(to_numpy(block.mean)[:, 0][open_])
        return {"mean": by_reward, "success": Moments.of(mean[known])}

    def rates(self, batch: Batch) -> tuple[float, float]:
        """Return mean and deviation (ddof 1) of the success rates, from `rate_moments`."""
        low, high = self.levels
        span = high - low
        by_reward = batch.extra["mean"]
        if "success" not in batch.extra:
            return (by_reward.mean - low) / span, by_reward.std(1) / span
        scaled = Moments(by_reward.count, (by_reward.mean - low) / span, by_reward.m2 / span**2)
        both = scaled + batch.extra["success"]
        return both.mean, both.std(1)

    def all_wrong(self, tied: Dense | GroupSummary, groups: Groups) -> NDArray[np.bool_]:
        """Return which tied groups are all wrong, on the host."""
        return self._all_at(tied, groups, self.levels[0], WRONG)

    def all_right(self, tied: Dense | GroupSummary, groups: Groups) -> NDArray[np.bool_]:
        """Return which tied groups are all right, on the host."""
        return self._all_at(tied, groups, self.levels[1], RIGHT)

    def _all_at(
        self, tied: Dense | GroupSummary, groups: Groups, level: float, wanted: int
    ) -> NDArray[np.bool_]:
        by_reward = self.is_at(tied, level)
        verdict = verdicts(groups, self.tolerance, self.success)
        if verdict is None:
            return by_reward
        verdict = verdict[tied.index] if isinstance(tied, Dense) else verdict
        return np.where(verdict >= 0, tied.tied & (verdict == wanted), by_reward)

    def is_at(self, block: Dense | GroupSummary, level: float) -> NDArray[np.bool_]:
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

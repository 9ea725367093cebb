"""The levels that a run's reward takes, and the kinds of tied groups that follow from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.measures.summary import GroupSummary

KINDS = ("all_wrong", "all_correct", "tied_between")


class Levels(NamedTuple):
    """The lowest and the highest reward of a run; NaN before anything was scored."""

    low: float
    high: float

    @classmethod
    def of(cls, summary: GroupSummary) -> Levels:
        """Return the levels over all scorable samples."""
        low, high = (
            np.fmin.reduce(summary.low, initial=np.nan),
            np.fmax.reduce(summary.high, initial=np.nan),
        )
        return cls(float(low), float(high))

    def union(self, other: Levels) -> Levels:
        """Return the levels of both parts of a run."""
        return Levels(float(np.fmin(self.low, other.low)), float(np.fmax(self.high, other.high)))

    def scale(self, tolerance: Tolerance) -> float:
        """Return the reward scale of the run: its range.

        Our reading where the whole run is nearly constant: its largest magnitude instead, since a
        range that is itself below the resolution is no yardstick.
        """
        span, magnitude = self.high - self.low, max(abs(self.low), abs(self.high))
        return span if span > tolerance.resolution * magnitude else magnitude

    def kind(self, value: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.int64]:
        """Return the index into `KINDS` of groups tied at these values."""
        if tolerance.equal(self.low, self.high):
            low, high = 0.0, 1.0
            right = tolerance.equal(np.minimum(value, high), np.maximum(value, high))
        else:
            low, high = self.low, self.high
            right = tolerance.equal(np.minimum(value, high), high)
        wrong = tolerance.equal(low, np.maximum(value, low))
        kind = np.full(np.shape(value), 2, dtype=np.int64)
        kind[right] = 1
        kind[wrong] = 0
        return kind


def kinds(groups: Groups, summary: GroupSummary, levels: Levels | None = None) -> NDArray[np.int64]:
    """Return the index into `KINDS` of each tied group, -1 for every other group.

    By `correct` where a tied group knows it (all 0, all 1, else between), otherwise by the levels
    of the run's reward.

    Parameters
    ----------
    summary
        Of the rewards of these groups.
    levels
        The lowest and highest reward of the run where it is longer than these groups.

    Examples
    --------
    >>> groups = Groups.from_nested([[-1, -1], [1, 1], [0, 0], [1, -1]])
    >>> kinds(groups, GroupSummary.of(groups)).tolist()
    [0, 1, 2, -1]
    """
    levels = levels or Levels.of(summary)
    kind = np.full(len(groups), -1, dtype=np.int64)
    tied = summary.tied
    kind[tied] = levels.kind(summary.low[tied], summary.tolerance)
    verdict = kind_by_verdict(groups, summary.tolerance)
    if verdict is not None:
        decided = tied & (verdict >= 0)
        kind[decided] = verdict[decided]
    return kind


def kind_by_verdict(groups: Groups, tolerance: Tolerance) -> NDArray[np.int64] | None:
    """Return the kind that `correct` gives each group, -1 where unknown; None without the column.

    Examples
    --------
    >>> groups = Groups.from_nested([[5, 5], [5, 5]], correct=[[1, 1], [None, None]])
    >>> kind_by_verdict(groups, Tolerance()).tolist()
    [1, -1]
    """
    if "correct" not in groups.columns:
        return None
    verdict = GroupSummary.of(groups, tolerance, "correct")
    known = verdict.scorable > 0
    wrong = known & (verdict.high <= tolerance.atol)
    right = known & (verdict.low >= 1 - tolerance.atol)
    return np.select([wrong, right, known], [0, 1, 2], -1)

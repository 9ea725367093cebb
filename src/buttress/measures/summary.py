"""What every measure starts from: the order statistics of each group, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance


@dataclass(frozen=True, eq=False)
class GroupSummary:
    """Count, lowest and highest scorable value of each group; arrays of shape ``(group,)``.

    `low` and `high` are NaN where a group has no scorable sample.
    """

    size: NDArray[np.int64]
    scorable: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    tolerance: Tolerance

    @classmethod
    def of(
        cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE, column: str = "reward"
    ) -> GroupSummary:
        """Summarise one column of the groups (the reward by default)."""
        values = groups.column(column)
        if values is None:
            values = np.full(groups.n_samples, np.nan)
        return cls(*_order_statistics(values, groups.offsets), tolerance)

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """Groups with two or more scorable samples: those that can tie."""
        return self.scorable >= 2

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """Eligible groups whose values are equal within the tolerance."""
        return self.eligible & self.tolerance.equal(self.low, self.high)

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """Eligible groups that are not tied: those that carry a signal."""
        return self.eligible & ~self.tied

    @property
    def singleton(self) -> NDArray[np.bool_]:
        """Groups of one rollout."""
        return self.size == 1

    @property
    def unscorable(self) -> NDArray[np.bool_]:
        """Groups of several rollouts of which fewer than two can be scored."""
        return (self.size >= 2) & ~self.eligible


def _order_statistics(
    values: NDArray[np.float64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    size = np.diff(offsets)
    n_groups = len(size)
    low, high = np.full(n_groups, np.nan), np.full(n_groups, np.nan)
    filled = size > 0
    starts = offsets[:-1][filled]
    if not len(starts):
        return size, np.zeros(n_groups, dtype=np.int64), low, high
    scorable = size.copy()
    finite = np.isfinite(values)
    if finite.all():
        low[filled] = np.minimum.reduceat(values, starts)
        high[filled] = np.maximum.reduceat(values, starts)
        return size, scorable, low, high
    scorable[filled] = np.add.reduceat(finite.astype(np.int64), starts)
    low[filled] = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high[filled] = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    empty = scorable == 0
    low[empty] = high[empty] = np.nan
    return size, scorable, low, high

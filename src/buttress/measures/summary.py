"""What every measure starts from: the order statistics of each group, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.segments import count_in_groups, reduce_groups


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
        """Summarise one column of the groups (the reward by default).

        The summary is kept with the groups, since most measures start from it.
        """
        key = (cls, column, tolerance)
        if key not in Groups.checked(groups).memo:
            values = groups.column(column)
            if values is None:
                values = np.full(groups.n_samples, np.nan)
            groups.memo[key] = cls(groups.sizes, *_order_statistics(values, groups), tolerance)
        return groups.memo[key]

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """Groups with two or more scorable samples: those that can tie."""
        return self.scorable >= 2

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """Eligible groups whose values are equal within the tolerance."""
        return self.eligible & self.tolerance.equal(self.low, self.high)

    @cached_property
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
    values: NDArray[np.float64], groups: Groups
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    finite = np.isfinite(values)
    scorable = count_in_groups(finite, groups)
    if finite.all():
        low = reduce_groups(np.minimum, values, groups)
        return scorable, low, reduce_groups(np.maximum, values, groups)
    low = reduce_groups(np.minimum, np.where(finite, values, np.inf), groups)
    high = reduce_groups(np.maximum, np.where(finite, values, -np.inf), groups)
    low[scorable == 0] = high[scorable == 0] = np.nan
    return scorable, low, high

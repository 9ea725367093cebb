"""Reward spread within groups (what GRPO learns from) and between them (what it cannot use)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.levels import Levels
from buttress.measures.segments import sum_in_groups
from buttress.measures.statistics import ratio
from buttress.measures.summary import GroupSummary

LARGEST_SPAN = 1e145  # squares of larger deviations overflow


@dataclass(frozen=True, slots=True)
class SpreadSums:
    """Count, mean and squared deviations of all scorable samples, and those within groups.

    Merged by the update of Chan, Golub and LeVeque (1979), so that a large common offset of the
    rewards costs no precision.
    """

    n: int
    mean: float
    total: float  # sum of (r - mean)^2
    within: float  # sum of (r - group mean)^2

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Collect the sums of a batch."""
        summary = GroupSummary.of(groups, tolerance)
        n, levels = int(summary.scorable.sum()), Levels.of(summary)
        if not n:
            return cls(0, 0.0, 0.0, 0.0)
        if levels.high - levels.low > LARGEST_SPAN:
            return cls(n, np.nan, np.nan, np.nan)
        # deviations from a value that occurs: equal rewards give exactly 0
        above = groups.rewards - np.repeat(summary.low, groups.sizes)
        count, total = sum_in_groups(above, groups)
        with np.errstate(invalid="ignore"):
            offset = total / count
        within = float(np.nansum((above - np.repeat(offset, groups.sizes)) ** 2))
        known = count > 0
        count, means = count[known], (summary.low + offset)[known] - levels.low
        mean = float((count * means).sum() / n)
        between = float((count * (means - mean) ** 2).sum())
        return cls(n, levels.low + mean, within + between, within)

    def __add__(self, other: SpreadSums) -> SpreadSums:
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        return SpreadSums(
            n,
            self.mean + apart * other.n / n,
            self.total + other.total + apart * apart * self.n * other.n / n,
            self.within + other.within,
        )

    @property
    def overall_sd(self) -> float:
        """Population standard deviation over all samples: what a batch-level metric shows."""
        return _deviation(self.total, self.n)

    @property
    def within_sd(self) -> float:
        """Root mean squared deviation from the group mean: what the advantages are made of."""
        return _deviation(self.within, self.n)

    @property
    def within_share(self) -> float:
        """Share of the reward variance that lies within groups; NaN for constant rewards."""
        return ratio(self.within, self.total)


def _deviation(squares: float, n: int) -> float:
    deviation = float(np.sqrt(ratio(squares, n)))
    return deviation if np.isfinite(deviation) else float(np.nan)


def spread(groups: Groups) -> SpreadSums:
    """Return how the reward varies within groups and between them.

    Batch spread is not group spread: two prompts at -7 and 3 have a batch deviation of 5 and give
    no gradient at all. ``total = within + between`` as in an analysis of variance; unscorable
    rewards are left out, and deviations beyond the range of float64 are unknown (NaN).

    Examples
    --------
    >>> sums = spread(Groups.from_nested([[-7, -7], [3, 3]]))
    >>> sums.overall_sd, sums.within_sd, sums.within_share
    (5.0, 0.0, 0.0)
    """
    return SpreadSums.of(groups)

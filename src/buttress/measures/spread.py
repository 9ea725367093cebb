"""Reward spread within groups (what GRPO learns from) and between them (what it cannot use)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import ratio


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
        scorable = np.isfinite(groups.rewards)
        rewards, group = groups.rewards[scorable], groups.group_of[scorable]
        if not len(rewards):
            return cls(0, 0.0, 0.0, 0.0)
        count = np.bincount(group, minlength=len(groups))
        with np.errstate(invalid="ignore"):
            means = np.bincount(group, weights=rewards, minlength=len(groups)) / count
        mean = float(rewards.mean())
        return cls(
            len(rewards),
            mean,
            float(((rewards - mean) ** 2).sum()),
            float(((rewards - means[group]) ** 2).sum()),
        )

    def __add__(self, other: SpreadSums) -> SpreadSums:
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        return SpreadSums(
            n,
            self.mean + apart * other.n / n,
            self.total + other.total + apart**2 * self.n * other.n / n,
            self.within + other.within,
        )

    @property
    def overall_sd(self) -> float:
        """Population standard deviation over all samples: what a batch-level metric shows."""
        return float(np.sqrt(ratio(self.total, self.n)))

    @property
    def within_sd(self) -> float:
        """Root mean squared deviation from the group mean: what the advantages are made of."""
        return float(np.sqrt(ratio(self.within, self.n)))

    @property
    def within_share(self) -> float:
        """Share of the reward variance that lies within groups; NaN for constant rewards."""
        return ratio(self.within, self.total)


def spread(groups: Groups) -> SpreadSums:
    """Return how the reward varies within groups and between them.

    Batch spread is not group spread: two prompts at -7 and 3 have a batch deviation of 5 and give
    no gradient at all.

    Examples
    --------
    >>> sums = spread(Groups.from_nested([[-7, -7], [3, 3]]))
    >>> sums.overall_sd, sums.within_sd, sums.within_share
    (5.0, 0.0, 0.0)
    """
    return SpreadSums.of(groups)

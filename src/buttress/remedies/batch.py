"""What a whole step tells an estimator, in numbers that ranks can add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from buttress.measures.statistics import ratio
from buttress.remedies.moments import Moments
from buttress.remedies.view import View


@dataclass(frozen=True, slots=True)
class Batch:
    """Statistics of one step; ``a + b`` are those of two ranks together.

    They are plain numbers on the host: gradients do not flow through them.

    Attributes
    ----------
    groups, eligible, tied
        All groups, those with two or more scorable samples, and the tied ones among them.
    samples, unscorable
        All rollouts and those without a reward.
    reward
        Moments of the scorable rewards.
    low, high
        Lowest and highest reward; infinite while there is none.
    group_mean
        Moments over groups of the group's mean reward.
    extra
        What one estimator needs besides.
    """

    groups: int
    eligible: int
    tied: int
    samples: int
    unscorable: int
    reward: Moments
    low: float
    high: float
    extra: Mapping[str, Moments] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View, extra: Mapping[str, Moments]) -> Batch:
        """Collect the statistics of a batch."""
        summary, rewards = view.summary, view.groups.rewards
        whole = summary.scorable is summary.size  # nothing is missing
        scorable = len(rewards) if whole else int(summary.scorable.sum())
        return cls(
            groups=len(view.groups),
            eligible=int(np.count_nonzero(summary.eligible)),
            tied=int(np.count_nonzero(summary.tied)),
            samples=len(rewards),
            unscorable=len(rewards) - scorable,
            reward=Moments.of(rewards if scorable == len(rewards) else rewards[~np.isnan(rewards)]),
            low=float(np.fmin.reduce(summary.low, initial=np.inf)),
            high=float(np.fmax.reduce(summary.high, initial=-np.inf)),
            extra=extra,
        )

    def __add__(self, other: Batch) -> Batch:
        names = self.extra.keys() | other.extra.keys()
        none = Moments(0, 0.0, 0.0)
        return Batch(
            groups=self.groups + other.groups,
            eligible=self.eligible + other.eligible,
            tied=self.tied + other.tied,
            samples=self.samples + other.samples,
            unscorable=self.unscorable + other.unscorable,
            reward=self.reward + other.reward,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            extra={
                name: self.extra.get(name, none) + other.extra.get(name, none) for name in names
            },
        )

    @property
    def acr(self) -> float:
        """Advantage collapse rate; NaN when no group can tie."""
        return ratio(self.tied, self.eligible)

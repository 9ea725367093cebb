"""What the sampling bought: rollouts and tokens that carry a signal, and those that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import Additive, ratio
from buttress.measures.summary import GroupSummary


@dataclass(frozen=True, slots=True)
class SignalCounts(Additive):
    """Rollouts and tokens of a set of groups, by what became of them."""

    rollouts: int
    unscorable: int
    wasted: int  # scorable rollouts in tied groups
    useful: int  # scorable rollouts in mixed groups
    wasted_tokens: int
    tokens: int
    counted: int  # rollouts whose length is known

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the rollouts of a batch."""
        summary = GroupSummary.of(groups, tolerance)
        scorable = np.isfinite(groups.rewards)
        in_tied = summary.tied[groups.group_of]
        length = groups.column("length")
        length = np.full(groups.n_samples, np.nan) if length is None else length
        return cls(
            rollouts=groups.n_samples,
            unscorable=int((~scorable).sum()),
            wasted=int(summary.scorable[summary.tied].sum()),
            useful=int(summary.scorable[summary.mixed].sum()),
            wasted_tokens=int(np.nansum(length[in_tied])),
            tokens=int(np.nansum(length)),
            counted=int(np.isfinite(length).sum()),
        )

    @property
    def effective_batch(self) -> float:
        """Share of the rollouts that stand in mixed groups and can be scored; NaN without any."""
        return ratio(self.useful, self.rollouts)

    @property
    def tokens_wasted(self) -> int | None:
        """Completion tokens in tied groups; None when lengths are unknown."""
        return self.wasted_tokens if self.counted else None


def signal(groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> SignalCounts:
    """Return how many rollouts and tokens were spent with and without a signal.

    Examples
    --------
    >>> counts = signal(Groups.from_nested([[1, 1], [0, 1]], length=[[10, 20], [5, 5]]))
    >>> counts.wasted, counts.tokens_wasted, counts.effective_batch
    (2, 30, 0.5)
    """
    return SignalCounts.of(groups, tolerance)

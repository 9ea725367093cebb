"""What the sampling bought: rollouts and tokens that carry a signal, and those that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.segments import sum_in_groups
from buttress.measures.statistics import Additive, ratio
from buttress.measures.summary import GroupSummary

LONGEST = 1e12  # tokens


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
        scorable = int(summary.scorable.sum())
        length = groups.column("length")
        if length is None:
            counted = tokens = np.zeros(len(groups), dtype=np.int64)
        else:
            if not (len(length) and length.min() >= 0 and length.max() < LONGEST):
                # no completion is longer: such an entry is damage, and its sum would overflow
                length = np.where((length >= 0) & (length < LONGEST), length, np.nan)
            counted, tokens = sum_in_groups(length, groups)
        return cls(
            rollouts=groups.n_samples,
            unscorable=groups.n_samples - scorable,
            wasted=int(summary.scorable[summary.tied].sum()),
            useful=int(summary.scorable[summary.mixed].sum()),
            wasted_tokens=int(tokens[summary.tied].sum()),
            tokens=int(tokens.sum()),
            counted=int(counted.sum()),
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

    Rollouts of a tied group are wasted; tokens of unscorable rollouts in it are wasted too. Where
    no length is known `tokens_wasted` is None, never 0.

    Examples
    --------
    >>> counts = signal(Groups.from_nested([[1, 1], [0, 1]], length=[[10, 20], [5, 5]]))
    >>> counts.wasted, counts.tokens_wasted, counts.effective_batch
    (2, 30, 0.5)
    """
    return SignalCounts.of(groups, tolerance)

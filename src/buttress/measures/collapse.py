"""The advantage collapse rate: which share of the groups can teach nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.intervals import clustered_rate_interval
from buttress.measures.statistics import Additive, ratio
from buttress.measures.summary import GroupSummary
from buttress.measures.tables import KeyedCounts, counts_by_prompt


@dataclass(frozen=True, slots=True)
class CollapseCounts(Additive):
    """Tied and eligible groups, and the same two counts per prompt.

    Prompts that are not known count as one cluster per group.
    """

    tied: int
    eligible: int
    by_prompt: KeyedCounts  # prompt id -> [tied, eligible]
    unnamed: np.ndarray  # [tied, eligible] over groups without a prompt

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the groups of a batch."""
        return cls.of_summary(groups, GroupSummary.of(groups, tolerance))

    @classmethod
    def of_summary(cls, groups: Groups, summary: GroupSummary) -> Self:
        """Count the groups of a batch that is summarised already."""
        by_prompt = counts_by_prompt(groups, [summary.tied, summary.eligible], np.int64)
        total = np.array([summary.tied.sum(), summary.eligible.sum()])
        return cls(int(total[0]), int(total[1]), by_prompt, total - by_prompt.rows.sum(axis=0))

    @property
    def rate(self) -> float:
        """Tied groups over eligible groups; NaN when no group is eligible."""
        return ratio(self.tied, self.eligible)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval of the rate, with visits to one prompt as one cluster."""
        tied, eligible = (int(count) for count in self.unnamed)
        hits = np.repeat([1, 0], [tied, eligible - tied])
        return clustered_rate_interval(
            np.concatenate([self.by_prompt.rows[:, 0], hits]),
            np.concatenate([self.by_prompt.rows[:, 1], np.ones(eligible, dtype=np.int64)]),
            confidence=confidence,
        )


def collapse_rate(groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> float:
    """Return the advantage collapse rate (ACR): the share of groups whose rewards are all equal.

    ``ACR = #{groups with max - min <= atol + rtol max|r|} / #{groups with >= 2 scorable samples}``

    A tied group has no advantage and no gradient, so its rollouts are spent for nothing. Ties are
    found by the range in float64; the paper's ``sigma < 1e-6`` gives the same answer in exact
    arithmetic. Unscorable samples (NaN, infinite) are left out.

    Returns
    -------
    float
        A rate in [0, 1]; NaN when no group has two scorable samples.

    Source: equation 6 of arXiv 2605.21125.

    Examples
    --------
    >>> collapse_rate(Groups.from_nested([[1, 1, 1], [0, 1, 0]]))
    0.5
    >>> collapse_rate(Groups.from_nested([[None, 1], []]))
    nan
    """
    summary = GroupSummary.of(groups, tolerance)
    return ratio(int(summary.tied.sum()), int(summary.eligible.sum()))

"""The advantage collapse rate: which share of the groups can teach nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.intervals import clustered_rate_interval
from buttress.measures.statistics import Additive, ratio
from buttress.measures.summary import GroupSummary


@dataclass(frozen=True, slots=True)
class CollapseCounts(Additive):
    """Tied and eligible groups, and the same two counts per prompt.

    Prompts that are not known count as one cluster per group.
    """

    tied: int
    eligible: int
    by_prompt: dict[str, np.ndarray]  # prompt id -> [tied, eligible]
    unnamed: np.ndarray  # [tied, eligible] over groups without a prompt

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the groups of a batch."""
        return cls.of_summary(groups, GroupSummary.of(groups, tolerance))

    @classmethod
    def of_summary(cls, groups: Groups, summary: GroupSummary) -> Self:
        """Count the groups of a batch that is summarised already."""
        named = groups.prompt >= 0
        counts = np.stack([summary.tied, summary.eligible], axis=1).astype(np.int64)
        per_prompt = np.zeros((len(groups.prompt_labels), 2), dtype=np.int64)
        for column in (0, 1):
            per_prompt[:, column] = np.bincount(
                groups.prompt[named], weights=counts[named, column], minlength=len(per_prompt)
            )
        by_prompt = dict(zip(map(str, groups.prompt_labels), per_prompt, strict=True))
        tied, eligible = (int(total) for total in counts.sum(axis=0))
        return cls(tied, eligible, by_prompt, counts[~named].sum(axis=0))

    @property
    def rate(self) -> float:
        """Tied groups over eligible groups; NaN when no group is eligible."""
        return ratio(self.tied, self.eligible)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval of the rate, with visits to one prompt as one cluster."""
        clusters = np.array(list(self.by_prompt.values()), dtype=np.int64).reshape(-1, 2)
        tied, eligible = (int(count) for count in self.unnamed)
        alone = np.repeat([[1, 1], [0, 1]], [tied, eligible - tied], axis=0)
        clusters = np.concatenate([clusters, alone])
        return clustered_rate_interval(clusters[:, 0], clusters[:, 1], confidence=confidence)


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

"""The collapse rate of every reward component beside that of the total."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import Additive, ratio
from buttress.measures.summary import GroupSummary


@dataclass(frozen=True, slots=True)
class ComponentCounts(Additive):
    """``[tied, eligible]`` per component; a component that a batch lacks adds nothing."""

    counts: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the groups of a batch for each component."""
        counts = {}
        for name in reward_names(groups):
            summary = GroupSummary.of(groups, tolerance, name)
            counts[name] = np.array(
                [np.count_nonzero(summary.tied), np.count_nonzero(summary.eligible)]
            )
        return cls(counts)

    @property
    def rates(self) -> dict[str, float]:
        """ACR per component; NaN where no group has two scorable samples of it."""
        return {name: ratio(*map(int, counts)) for name, counts in self.counts.items()}


def reward_names(groups: Groups) -> list[str]:
    """Return ``reward``, then ``correct`` and each ``reward/<name>`` that the groups carry.

    Examples
    --------
    >>> reward_names(Groups.from_nested([[1, 0]], **{"reward/format": [[1, 1]]}))
    ['reward', 'reward/format']
    """
    extra = sorted(name for name in groups.columns if name.startswith("reward/"))
    return ["reward", *(["correct"] if "correct" in groups.columns else []), *extra]


def collapse_rate_by_reward(
    groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE
) -> dict[str, float]:
    """Return the ACR of the reward, of correctness and of each reward component.

    A live format reward hides dead correctness: the total is mixed, its ACR low, and the model
    learns nothing about the task. Components are taken unweighted.

    Examples
    --------
    >>> groups = Groups.from_nested([[0.1, 0, 0.1]], correct=[[0, 0, 0]])
    >>> collapse_rate_by_reward(groups)
    {'reward': 0.0, 'correct': 1.0}
    """
    return ComponentCounts.of(groups, tolerance).rates

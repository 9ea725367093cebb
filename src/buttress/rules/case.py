"""The run under examination, with every measure that several rules look at, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, GroupingProblem, Groups, Run, Tolerance
from buttress.groups import check_grouping as _check_grouping
from buttress.measures import (
    CollapseCounts,
    Composition,
    GroupCounts,
    GroupSummary,
    Levels,
    StepTable,
    by_step,
    collapse_rate_by_reward,
    kinds,
)
from buttress.rules import filtering


@dataclass(frozen=True)
class Case:
    """A run and what was measured on it; arrays are per group unless they say otherwise."""

    run: Run
    tolerance: Tolerance = DEFAULT_TOLERANCE

    @property
    def groups(self) -> Groups:
        """The rollouts."""
        return self.run.groups

    @cached_property
    def summary(self) -> GroupSummary:
        """Order statistics of each group's rewards."""
        return GroupSummary.of(self.groups, self.tolerance)

    @cached_property
    def levels(self) -> Levels:
        """Lowest and highest reward of the run."""
        return Levels.of(self.summary)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """Index into `measures.KINDS` of each tied group, -1 for others."""
        return kinds(self.groups, self.summary, self.levels)

    @cached_property
    def counts(self) -> GroupCounts:
        """Number of groups of each kind."""
        return Composition.of(self.groups, self.tolerance).counts()

    @cached_property
    def collapse(self) -> CollapseCounts:
        """Tied and eligible groups, by prompt."""
        return CollapseCounts.of_summary(self.groups, self.summary)

    @cached_property
    def steps(self) -> StepTable:
        """Composition of each step."""
        return by_step(self.groups, self.tolerance, self.levels)

    @cached_property
    def acr_by_reward(self) -> dict[str, float]:
        """ACR of the reward and of each component."""
        return collapse_rate_by_reward(self.groups, self.tolerance)

    @cached_property
    def grouping(self) -> list[GroupingProblem]:
        """What is wrong with the grouping."""
        return _check_grouping(self.groups, self.run.facts)

    @cached_property
    def filtered(self) -> filtering.FilterSigns | None:
        """Signs that the log holds only groups which passed the trainer's filter."""
        return filtering.signs(self.summary, self.groups, self.run.facts)

    @cached_property
    def undefined(self) -> str | None:
        """Why the ACR means nothing here; None when it means something."""
        fatal = [problem for problem in self.grouping if problem.fatal]
        if fatal:
            return fatal[0].message
        if not self.summary.eligible.any():
            return "no group has two rollouts that can be scored"
        if self.filtered and self.filtered.conclusive:
            return "tied groups were filtered out before the log was written"
        return None

    @property
    def acr(self) -> float:
        """The collapse rate; NaN where it is undefined."""
        return float(np.nan) if self.undefined else self.collapse.rate

    def span(self, affected: NDArray[np.bool_] | None = None) -> tuple[int, int] | None:
        """Return the first and last step of the groups in a mask (of all groups by default)."""
        steps = self.groups.step if affected is None else self.groups.step[affected]
        return (int(steps.min()), int(steps.max())) if len(steps) else None

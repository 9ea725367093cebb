"""The run under examination, with every measure that several rules look at, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, GroupingProblem, Groups, Run, Tolerance
from buttress.groups import check_grouping as _check_grouping
from buttress.measures import (
    KINDS,
    CollapseCounts,
    GroupCounts,
    GroupSummary,
    Levels,
    SignalCounts,
    StepTable,
    by_step,
    kinds,
    reward_names,
)
from buttress.measures.forecast import OwnLine
from buttress.measures.mastery import Mastery, mastery
from buttress.measures.statistics import ratio
from buttress.rules import filtering
from buttress.rules import thresholds as at
from buttress.rules.correctness import Correctness, find_correctness
from buttress.rules.course import Course, trace_course
from buttress.rules.length_cap import LengthCap, read_length_cap
from buttress.rules.logged import FlatBatch, LoggedAdvantages, flat_batch
from buttress.rules.prompt_counts import Counts, count_groups
from buttress.rules.repeats import Repeats, read_repeats
from buttress.rules.shaping import Shaping, read_shaping


@dataclass(frozen=True)
class Case:
    """A run and what was measured on it; arrays are per group unless they say otherwise.

    `line` was learnt from finished runs beside this one, where there are any.
    """

    run: Run
    tolerance: Tolerance = DEFAULT_TOLERANCE
    line: OwnLine | None = None

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
        by_kind = {kind: int((self.kinds == code).sum()) for code, kind in enumerate(KINDS)}
        return GroupCounts(
            mixed=int(self.summary.mixed.sum()),
            near_tied=int(self.near_tied.sum()),
            unscorable=int(self.summary.unscorable.sum()),
            singleton=int(self.summary.singleton.sum()),
            **by_kind,
        )

    @cached_property
    def near_tied(self) -> NDArray[np.bool_]:
        """Mixed groups whose range is within the resolution."""
        scale = self.levels.scale(self.tolerance)
        apart = self.summary.high - self.summary.low
        return self.summary.mixed & (apart <= self.tolerance.resolution * scale)

    @cached_property
    def spent(self) -> SignalCounts:
        """Rollouts and tokens with and without a signal."""
        return SignalCounts.of(self.groups, self.tolerance)

    @cached_property
    def collapse(self) -> CollapseCounts:
        """Tied and eligible groups, by prompt."""
        return CollapseCounts.of_summary(self.groups, self.summary)

    @cached_property
    def steps(self) -> StepTable:
        """Composition of each step."""
        return by_step(self.groups, self.tolerance, self.levels)

    @cached_property
    def course(self) -> Course:
        """How the ACR went over the run."""
        scale = self.levels.high - self.levels.low
        found = trace_course(self.steps, scale)
        if found.fallen is None or not self._dead_before(found.fallen.first):
            return found
        return trace_course(self.steps, scale, may_fall=False)

    def _dead_before(self, step: int) -> bool:
        """Whether the prompts from this step on were not solved before it either."""
        groups = self.groups
        known = groups.prompt >= 0
        early, n = known & (groups.step < step), len(groups.prompt_labels)
        alive = self.summary.mixed | (self.kinds == KINDS.index("all_correct"))
        seen = np.bincount(groups.prompt[early & self.summary.eligible], minlength=n)
        solved = np.bincount(groups.prompt[early & alive], minlength=n)
        again = groups.prompt[known & (groups.step >= step)]
        again = again[seen[again] > 0]
        return len(again) >= at.FALL_REVISITS and bool((solved[again] == 0).mean() >= 0.5)

    @cached_property
    def components(self) -> dict[str, GroupSummary]:
        """Order statistics of the reward, of correctness and of each component."""
        extra = [name for name in reward_names(self.groups) if name != "reward"]
        read = {name: GroupSummary.of(self.groups, self.tolerance, name) for name in extra}
        return {"reward": self.summary, **read}

    @cached_property
    def acr_by_reward(self) -> dict[str, float]:
        """ACR of the reward and of each component."""
        return {
            name: ratio(int(one.tied.sum()), int(one.eligible.sum()))
            for name, one in self.components.items()
        }

    @cached_property
    def correctness(self) -> Correctness | None:
        """The column that says whether the task was solved."""
        return find_correctness(self.components)

    @cached_property
    def success(self) -> NDArray[np.float64]:
        """How far each rollout succeeded, in [0, 1], shape ``(sample,)``; NaN where unknown.

        `correct` as it is, else the place of the task's component (or of the reward) between its
        levels. Where it has one level only, nothing succeeded.
        """
        name = self.correctness.column if self.correctness else "reward"
        values = self.groups.column(name)
        assert values is not None
        if name == "correct":
            return values
        low, high = Levels.of(self.components[name])
        return (values - low) / (high - low) if high > low else values * 0.0

    @cached_property
    def success_counts(self) -> Counts | None:
        """Scored rollouts and successes per group, None unless every success is 0 or 1."""
        return count_groups(self.groups, self.success)

    @cached_property
    def mastery(self) -> Mastery | None:
        """Which prompts were solved and lost, None where successes or prompts are unknown."""
        groups, counts = self.groups, self.success_counts
        if counts is None or not groups.has_prompts:
            return None
        return mastery(groups.prompt, groups.step, *counts, len(groups.prompt_labels))

    @cached_property
    def length_cap(self) -> LengthCap | None:
        """What is known of truncation."""
        return read_length_cap(self.run, self.summary, self.kinds, self.success)

    @cached_property
    def shaping(self) -> Shaping:
        """What the rewards beside correctness do."""
        return read_shaping(self.groups, self.components, self.correctness, self.success)

    @cached_property
    def repeats(self) -> Repeats | None:
        """Which groups hold the same text again and again."""
        return read_repeats(self.run, self.all_right)

    @cached_property
    def all_right(self) -> NDArray[np.bool_]:
        """Groups that are all correct, tied or not: noise of the reward below the resolution at
        its top is no failure.
        """
        top = self.levels.high - self.tolerance.resolution * self.levels.scale(self.tolerance)
        near = self.near_tied & (self.summary.low >= top)
        if self.correctness is not None and self.correctness.column == "correct":
            near = self.near_tied & self.correctness.right
        return near | (self.kinds == KINDS.index("all_correct"))

    @cached_property
    def logged(self) -> LoggedAdvantages | None:
        """The advantages that the trainer logged."""
        return LoggedAdvantages.of(self.groups)

    @cached_property
    def flat_batch(self) -> FlatBatch | None:
        """Proof that the logged advantages ignore the groups."""
        if self.logged is None:
            return None
        return flat_batch(self.groups, self.summary, self.logged)

    @cached_property
    def grouping(self) -> list[GroupingProblem]:
        """What is wrong with the grouping."""
        return _check_grouping(self.groups, self.run.facts)

    @cached_property
    def filtered(self) -> filtering.FilterSigns | None:
        """Signs that the log holds only groups which passed the trainer's filter."""
        return filtering.signs(self.summary, self.groups, self.run.facts)

    @cached_property
    def grouped(self) -> bool:
        """Whether there are groups that can be judged one by one."""
        sound = not any(problem.fatal for problem in self.grouping)
        return sound and bool(self.summary.eligible.any())

    @cached_property
    def undefined(self) -> str | None:
        """Why the ACR means nothing here; None when it means something."""
        if not len(self.groups):
            return "there are no rollouts"
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

"""Everything that a monitor has counted: what ranks add up and a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups, Tolerance
from buttress.hooks.monitor.joining import joined, light
from buttress.hooks.monitor.prompt_store import PromptStore
from buttress.hooks.monitor.series import CourseTable, Series
from buttress.hooks.monitor.step_ranges import StepRanges
from buttress.hooks.monitor.step_state import from_state, levels_from, levels_state, to_state
from buttress.hooks.monitor.step_statistics import StepStatistics
from buttress.measures import GroupSummary, Levels, SignalCounts
from buttress.measures.statistics import ratio

BLOCK = 20  # steps that are counted together
EARLY = 100  # steps
_HELD = 1 << 14  # rollouts that may wait to be counted
_SPARE = 4  # old blocks that may wait to be added up


class Ledger:
    """Counts by blocks of twenty steps: steps 1 to 20, 21 to 40, and so on.

    Groups wait until their block is full, since counting them all at once costs a fraction; whoever
    asks gets them counted first. The blocks of the first 100 steps and those of the last `window`
    steps are kept apart, all others as one sum.
    """

    def __init__(self, tolerance: Tolerance, window: int, max_prompts: int) -> None:
        self.tolerance = tolerance
        self.window = window
        self._width = window // BLOCK
        self.steps = StepRanges()
        self.repeated = 0  # rollouts that came again and were left out
        self.levels = Levels(np.nan, np.nan)
        self.settled = 0  # how often waiting groups were counted
        self.prompts = PromptStore(max_prompts)
        self._series = Series(BLOCK)
        self._old: StepStatistics | None = None
        self._blocks: dict[int, StepStatistics] = {}
        self._ties: dict[int, list[int]] = {}  # [tied, eligible] of those blocks, all steps in
        self._old_ties = [0, 0]
        self.spent = SignalCounts.of(Groups.from_nested([]))  # of the run
        self._waiting: list[Groups] = []
        self.held = 0  # rollouts that wait
        self.added = 0  # batches
        self._block = 0  # that of the waiting groups
        self.step: int | None = None  # the last one
        self._open = False  # it may still grow
        self._parts: list[Groups] = []  # of that step
        self._current: StepStatistics | None = None

    def add(self, step: int, groups: Groups) -> bool:
        """Take in a batch of one step; False where the step was over and counted before."""
        if not (self._open and step == self.step) and step in self.steps:
            self.repeated += groups.n_samples
            return False
        summary = GroupSummary.of(groups, self.tolerance)
        part = light(groups)
        part.memo[GroupSummary, "reward", self.tolerance] = summary
        block = (step - 1) // BLOCK
        if self._waiting and block != self._block:
            self.settle()
        if step != self.step:
            self.steps.add(step)
            self.step, self._open = step, True
            self._parts, self._current = [], None
        self._block = block
        self._parts.append(part)
        self._waiting.append(part)
        self.held += part.n_samples
        self.added += 1
        pair = [int(np.count_nonzero(summary.tied)), int(np.count_nonzero(summary.eligible))]
        _add(self._ties.setdefault(block, [0, 0]), pair)
        if self.held > _HELD:
            self.settle()
        return True

    def settle(self) -> None:
        """Count the groups that wait."""
        if not self._waiting:
            return
        waiting, self._waiting, self.held = self._waiting, [], 0
        groups = joined(waiting, self.tolerance)
        found = StepStatistics.of(groups, self.tolerance)
        self.levels = self.levels.union(found.composition.levels)
        self.spent += found.signal
        self._enter(self._block, found)
        self._series.add(self._block * BLOCK + 1, found)
        if groups.has_prompts:
            self.prompts.add(groups, self.tolerance)
        self._retire()
        self.settled += 1

    # --- what was counted ---

    def current(self) -> StepStatistics | None:
        """Return what the last step showed."""
        if self._parts:
            found = StepStatistics.of(joined(self._parts, self.tolerance), self.tolerance)
            self._current = found if self._current is None else self._current + found
            self._parts = []
        return self._current

    def acr(self, scope: str) -> float:
        """Return the ACR over ``_window``, ``_early`` or ``_run``, at next to no cost."""
        blocks = self._ties
        if scope == "_window":
            first = max(blocks, default=0) - self._width
            pairs = [blocks[block] for block in blocks if block > first]
        elif scope == "_early":
            pairs = [pair for block, pair in blocks.items() if _is_early(block)]
        else:
            pairs = [self._old_ties, *blocks.values()]
        tied = eligible = 0
        for pair in pairs:
            tied += pair[0]
            eligible += pair[1]
        return ratio(tied, eligible)

    def over(self, scope: str) -> StepStatistics | None:
        """Return the sum over a scope, without the groups that still wait to be counted."""
        if scope == "_window":
            first = max(self._blocks, default=0) - self._width
            return _sum(one for block, one in self._blocks.items() if block > first)
        if scope == "_early":
            return _sum(one for block, one in self._blocks.items() if _is_early(block))
        return _sum(one for one in (self._old, *self._blocks.values()) if one is not None)

    @property
    def block_width(self) -> int:
        """Steps in a block of the course."""
        return self._series.width

    def course(self) -> CourseTable:
        """Return the run in at most 64 rows."""
        self.settle()
        return self._series.table()

    @property
    def full_blocks(self) -> tuple[int, int]:
        """Width and last full block of the course: what changes when there is a new full one."""
        width = self._series.width
        return width, (self.steps.last or 0) // width

    # --- over ranks and over restarts ---

    def merge(self, other: Ledger) -> None:
        """Take in what another rank has counted."""
        if (self.tolerance, self.window) != (other.tolerance, other.window):
            raise UsageError(
                f"cannot merge monitors under {self.tolerance}, window={self.window} and under "
                f"{other.tolerance}, window={other.window}"
            )
        self.settle()
        other.settle()
        self._merge_current(other)
        self.prompts.merge(other.prompts)
        self.steps.merge(other.steps)
        self.repeated += other.repeated
        self.levels = self.levels.union(other.levels)
        self._series.merge(other._series)
        self._grow_old([] if other._old is None else [other._old])
        for block, found in other._blocks.items():
            self._enter(block, found)
        for block, pair in other._ties.items():
            _add(self._ties.setdefault(block, [0, 0]), pair)
        _add(self._old_ties, other._old_ties)
        self.spent += other.spent
        self._retire()
        self.settled += 1
        self.added += 1

    def _merge_current(self, other: Ledger) -> None:
        mine, theirs = self.current(), other.current()
        if other.step is None or theirs is None:
            return
        if mine is not None and self.step == other.step:
            self._current, self._open = mine + theirs, self._open or other._open
        elif self.step is None or other.step > self.step:
            self.step, self._current, self._open = other.step, theirs, other._open

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        self.settle()
        current = self.current()
        return {
            "steps": self.steps.ranges,
            "step": self.step,
            "repeated": self.repeated,
            "levels": levels_state(self.levels),
            "prompts": self.prompts.state(),
            "series": self._series.state(),
            "old": None if self._old is None else to_state(self._old),
            "current": None if current is None else to_state(current),
            "blocks": [[block, to_state(one)] for block, one in self._blocks.items()],
            "old_ties": self._old_ties,
            "spent": list(astuple(self.spent)),
            "ties": [[block, *pair] for block, pair in self._ties.items()],
        }

    def restored(self, state: Mapping[str, Any]) -> Ledger:
        """Return a ledger of these settings with a state.

        All of its steps are over, so none of them is counted again.
        """
        one = Ledger(self.tolerance, self.window, self.prompts.limit)
        old, current = (
            None if state[name] is None else from_state(state[name], self.tolerance)
            for name in ("old", "current")
        )
        one.steps, one.repeated = StepRanges(state["steps"]), int(state["repeated"])
        one.levels = levels_from(state["levels"])
        one.prompts = PromptStore.restored(state["prompts"], self.prompts.limit)
        one._series = Series.restored(state["series"])
        one.step = None if state["step"] is None else int(state["step"])
        one._old, one._current = old, current
        one._blocks = {int(key): from_state(part, self.tolerance) for key, part in state["blocks"]}
        one._ties = {int(block): [int(a), int(b)] for block, a, b in state["ties"]}
        one._old_ties = [int(count) for count in state["old_ties"]]
        one.spent = SignalCounts(*map(int, state["spent"]))
        one.settled = one.added = 1
        return one

    def _enter(self, block: int, found: StepStatistics) -> None:
        known = self._blocks.get(block)
        self._blocks[block] = (found if known is None else known + found).short()

    def _retire(self) -> None:
        """Add blocks to the old ones that are neither early nor in the window."""
        if not self._blocks:
            return
        first = max(self._blocks) - self._width
        over = [block for block in self._blocks if block <= first and not _is_early(block)]
        if len(over) > _SPARE:
            parts = [self._blocks.pop(block) for block in over]
            for block in over:
                _add(self._old_ties, self._ties.pop(block))
            self._grow_old(parts)

    def _grow_old(self, parts: list[StepStatistics]) -> None:
        total = _sum([*([] if self._old is None else [self._old]), *parts])
        self._old = None if total is None else total.short()


def _add(total: list[int], pair: list[int]) -> None:
    total[0] += pair[0]
    total[1] += pair[1]


def _is_early(block: int) -> bool:
    return block * BLOCK < EARLY


def _sum(parts: Iterable[StepStatistics]) -> StepStatistics | None:
    parts = list(parts)
    return StepStatistics.total(parts) if parts else None

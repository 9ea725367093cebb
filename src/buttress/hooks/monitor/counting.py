"""What a monitor knows: the ledger, the numbers made of it, and the estimator's own reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from buttress.groups import Groups, Tolerance
from buttress.hooks.metrics import reading_metrics
from buttress.hooks.monitor.ledger import Ledger
from buttress.hooks.monitor.readout import Readout
from buttress.measures import GroupSummary
from buttress.remedies.view import View

_READING = "reading/"


class Counting:
    """Counts steps and tells numbers; ranks add up, and a state brings it back.

    Attributes
    ----------
    ledger, readout
        What was counted, and the numbers made of it.
    """

    def __init__(self, ledger: Ledger, total_steps: int | None) -> None:
        self.ledger = ledger
        self.readout = Readout(ledger, total_steps)
        self._read_from: Any = {}  # a reading, or the estimator that has one

    def add(self, step: int, groups: Groups) -> bool:
        """Take in a batch of one step; False where the step was over and counted before."""
        _share_summary(groups, self.ledger.tolerance)
        return self.ledger.add(step, groups)

    def read_from(self, reading: Any, *, now: bool) -> None:
        """Take the reading of an estimator, `now` or when it is asked for."""
        self._read_from = reading
        if now:
            self._read_from = self.reading()

    def reading(self) -> dict[str, float]:
        """Return the numbers of the estimator that are news."""
        return reading_metrics(getattr(self._read_from, "reading", self._read_from))

    def number(self, name: str) -> float:
        """Return one number for a policy, NaN where it is unknown."""
        if name.startswith(_READING):
            return self.reading().get(name.removeprefix(_READING), math.nan)
        return self.readout.quick(name)

    def metrics(self) -> dict[str, float]:
        """Return every number that a tracker is to see."""
        return self.reading() | self.readout.metrics()

    def merge(self, other: Counting) -> None:
        """Take in what another one has counted; raises `UsageError` where it counts differently."""
        mine, theirs = self.ledger.steps.last, other.ledger.steps.last
        newer = theirs is not None and (mine is None or theirs > mine)
        self.ledger.merge(other.ledger)
        self.readout = Readout(self.ledger, self.readout.total_steps)
        if newer or not self.reading():
            self._read_from = other.reading()

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        return {
            "ledger": self.ledger.state(),
            "reading": {name: None if x != x else x for name, x in self.reading().items()},
        }

    def restored(self, state: Mapping[str, Any]) -> Self:
        """Return one of these settings with a state; raises what a damaged state brings about."""
        one = type(self)(self.ledger.restored(state["ledger"]), self.readout.total_steps)
        one._read_from = {
            str(name): math.nan if x is None else float(x) for name, x in state["reading"].items()
        }
        return one


def by_step(groups: Groups) -> list[tuple[int, Groups]]:
    """Return the groups of each step, steps ascending."""
    steps = sorted(set(groups.step.tolist()))
    if len(steps) == 1:
        return [(steps[0], groups)]
    return [(step, groups.select(groups.step == step)) for step in steps]


def _share_summary(groups: Groups, tolerance: Tolerance) -> None:
    """Take the summary that an estimator made of these groups."""
    view = groups.memo.get((View, tolerance))
    if view is not None and view.groups is groups:
        groups.memo.setdefault((GroupSummary, "reward", tolerance), view.summary)

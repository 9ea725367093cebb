"""Several runs in one tracker's store: which of them is the run that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.logs.builder import RolloutBuilder
from buttress.logs.metrics import OWN_STEP_NAMES, STEP_NAMES, TRAINER_NAMES, MetricRows, step_of
from buttress.logs.reader import ReadOptions
from buttress.logs.trackers.metric_names import trl_name

_LISTED = 8
_DEEPEST = 8  # of a metric inside metrics
_TELLING = {*TRAINER_NAMES, "reward"}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class TrackedRun:
    """One run of a store.

    Attributes
    ----------
    id
        As the tracker has it.
    name
        As people know it; may be that of several runs.
    paths
        The files that it stands in.
    started
        When, in any unit that orders the runs of a store.
    metrics
        Names of its metrics.
    load
        Reads them.
    deleted
        The user has thrown it away; it is read only when asked for.
    """

    id: str
    name: str
    paths: Sequence[Path]
    started: float
    metrics: Collection[str]
    load: Callable[[], MetricRows]
    deleted: bool = False

    @property
    def telling(self) -> bool:
        """Whether it has a metric that a trainer logs."""
        return any(trl_name(name) in _TELLING for name in self.metrics)

    @property
    def label(self) -> str:
        """Name and id, for a message."""
        return self.name if self.name == self.id or not self.id else f"{self.name} ({self.id})"


def take(runs: Iterable[TrackedRun], builder: RolloutBuilder, options: ReadOptions) -> None:
    """Hand one run over: the one that the user named, else the newest with a trainer's metrics.

    Runs are never mixed. Where there was a choice, the runs are named as a problem, with the way to
    choose; so are stores without any.
    """
    found = sorted(runs, key=lambda one: (one.telling, one.started))
    wanted = [one for one in found if options.run in (one.id, one.name)]
    if options.run is None:
        wanted = [one for one in found if not one.deleted and one.metrics]
    if not found:
        return
    place = found[-1].paths[0]
    if not wanted:
        what = f"no run {options.run}" if options.run is not None else "no run with metrics"
        builder.problem(place, 0, f"{what}; there are: {_names(found)}")
        return
    chosen = wanted[-1]
    if len(wanted) > 1:
        why = "the newest" if chosen.telling else "the newest, none has a trainer's metrics"
        message = (
            f"{len(wanted)} runs: {_names(wanted)}. {chosen.label} is read ({why}); "
            f"choose another with --run {_handle(wanted[0], wanted)}"
        )
        builder.problem(place, 0, message)
    for path in chosen.paths:
        builder.open(path)
    builder.infer(f"metrics: from the run {chosen.label}")
    chosen.load().hand_over(builder)


def _handle(run: TrackedRun, runs: Sequence[TrackedRun]) -> str:
    """Return what `--run` needs to find a run: its name where no other has it."""
    return run.name if [one.name for one in runs].count(run.name) == 1 else run.id


def _names(runs: Sequence[TrackedRun]) -> str:
    newest = [one.label for one in reversed(runs)]
    more = len(newest) - _LISTED
    return ", ".join(newest[:_LISTED]) + (f" and {more} more" if more > 0 else "")


class StepRows:
    """Rows of a run whose tracker counts them; the trainer's own step, in the row, is what counts.

    A row without one (TRL's profiling, for example) belongs to the step of the row before it.
    """

    def __init__(self) -> None:
        self.metrics = MetricRows()
        self._step: int | None = None

    def add(self, row: Mapping[str, Any], counted: int) -> None:
        """Take a row: names with numbers, or metrics inside metrics; `counted` is its number."""
        own = step_of(row, OWN_STEP_NAMES)
        if own is not None:
            self._step = own
        step = counted if self._step is None else self._step
        for name, value in row.items():
            if name not in STEP_NAMES and not name.startswith("_"):
                self._add(step, name, value, _DEEPEST)

    def _add(self, step: int, name: str, value: Any, depth: int) -> None:
        if isinstance(value, dict):
            if "_type" not in value and depth:  # else an image, a table, a histogram
                for key, inner in value.items():
                    self._add(step, f"{name}.{key}", inner, depth - 1)
        else:
            self.metrics.add(
                step, name, _WORDS.get(value, value) if isinstance(value, str) else value
            )

"""``trainer_state.json`` of Hugging Face trainers: the metrics that a checkpoint remembers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from buttress.logs.builder import RolloutBuilder
from buttress.logs.files import whole
from buttress.logs.reader import Kind, ReadOptions

NAME = "trainer_state.json"
_CHECKPOINT = "checkpoint-"
_LARGEST = 256 << 20  # bytes; a million steps of twenty metrics
_MEAN = "rewards/{}/mean"


@dataclass(frozen=True)
class TrainerLog:
    """The log history of one run.

    Attributes
    ----------
    path
        The file it was read from.
    records
        One mapping per log line, in the order written; ``step`` is a whole number in each.
    logging_steps
        The configured interval, or None where the file does not say.
    """

    path: Path
    records: tuple[Mapping[str, Any], ...] = ()
    logging_steps: int | None = None

    @property
    def last_step(self) -> int:
        """Step of the last record, -1 without one."""
        return max((one["step"] for one in self.records), default=-1)

    @cached_property
    def generations(self) -> dict[int, Mapping[str, Any]]:
        """Training records by step, where rollouts were generated since the record before."""
        return {one["step"]: one for one in self.records if "reward" in one}

    def generated(self, before: int, step: int) -> bool:
        """Return whether rollouts were generated after one step's file and before another's."""
        return step in self.generations and before in self._logged

    @cached_property
    def _logged(self) -> set[int]:
        return {one["step"] for one in self.records if "loss" in one}

    @cached_property
    def evaluations(self) -> dict[int, Mapping[str, Any]]:
        """Records of evaluations that generated rollouts, by step; without the prefix ``eval_``."""
        return {
            one["step"]: {name.removeprefix("eval_"): value for name, value in one.items()}
            for one in self.records
            if any(name.startswith("eval_") and name.endswith("reward") for name in one)
        }

    @cached_property
    def reward_functions(self) -> list[str]:
        """Names of the reward functions, in order of first appearance."""
        before, after = _MEAN.split("{}")
        return list(
            dict.fromkeys(
                name.removeprefix(before).removesuffix(after)
                for one in self.records
                for name in one
                if name.startswith(before) and name.endswith(after)
            )
        )


class TrainerState:
    """Reads a lone state file, or the latest of a run's checkpoints, as metrics only."""

    name: ClassVar[str] = "trl"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the name or the keys are those of a trainer state."""
        named = path.suffix.lower() == ".json" and b'"log_history"' in head
        return path.name == NAME or named

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Hand over the metrics of the latest readable state of each run."""
        runs: dict[Path, list[Path]] = {}
        for path in files:
            runs.setdefault(_run_folder(path), []).append(path)
        for found in runs.values():
            log = latest(found, builder)
            if log is not None:
                builder.open(log.path)
                add_metrics(log, builder)
                if len(found) > 1:
                    builder.infer(f"metrics: from {log.path}, the latest of {len(found)} states")


def beside(completions: Path) -> list[Path]:
    """Return the states of the run that wrote a completions file, in no order."""
    run = completions.parent.parent
    try:
        found = [run / NAME, *run.glob(f"{_CHECKPOINT}*/{NAME}")]
        return [path for path in found if path.is_file()]
    except OSError:
        return []


def latest(files: Sequence[Path], builder: RolloutBuilder) -> TrainerLog | None:
    """Return the state of one run that goes furthest; each holds the history from the start."""
    at_end = [path for path in files if not _checkpoint(path)]
    checkpoints = sorted(filter(_checkpoint, files), key=_checkpoint, reverse=True)
    readable = (load(path, builder) for path in checkpoints)
    newest = next((log for log in readable if log is not None), None)
    logs = [newest, *(load(path, builder) for path in at_end)]
    return max(filter(None, logs), key=lambda log: log.last_step, default=None)


def load(path: Path, builder: RolloutBuilder) -> TrainerLog | None:
    """Return the history of one file; None where there is none to read (a problem, said once)."""
    try:
        # the trainer writes NaN as it is, which only this parser takes
        state = json.loads(whole(path, _LARGEST))
    except (OSError, ValueError, RecursionError) as fault:
        line, message = _reason(fault)
        builder.problems.once((path, "state"), str(path), line, message)
        return None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        message = "no list log_history in it; is it a trainer_state.json?"
        builder.problems.once((path, "state"), str(path), 0, message)
        return None
    return TrainerLog(path, _records(history, path, builder), _whole(state.get("logging_steps")))


def add_metrics(log: TrainerLog, builder: RolloutBuilder) -> None:
    """Hand all metrics of a run to the builder, under the names that the trainer gave them."""
    metrics: dict[str, _Column] = {}
    for record in log.records:
        for name, value in record.items():
            if name != "step":
                metrics.setdefault(name, _Column()).append(record["step"], value)
    for name, column in metrics.items():
        if column.strange:
            message = f"{column.strange} values of {name} are no numbers; taken as unknown"
            builder.problems.once((log.path, name), str(log.path), 0, message)
        builder.scalars(name, column.steps, column.values)


@dataclass(slots=True)
class _Column:
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    strange: int = 0

    def append(self, step: int, value: Any) -> None:
        number = _number(value)
        self.strange += number is None
        self.steps.append(step)
        self.values.append(math.nan if number is None else number)


def _records(
    history: list[Any], path: Path, builder: RolloutBuilder
) -> tuple[Mapping[str, Any], ...]:
    records = []
    for at, record in enumerate(history):
        step = _whole(record.get("step")) if isinstance(record, dict) else None
        if step is None:
            message = f"log_history[{at}] names no step; left out"
            builder.problems.once((path, at), str(path), 0, message)
        else:
            records.append(record | {"step": step})
    return tuple(records)


def _reason(fault: Exception) -> tuple[int, str]:
    """Return the line at fault and the message for a file that is no JSON."""
    if isinstance(fault, OSError):
        return 0, f"cannot be opened: {fault.strerror}"
    if isinstance(fault, json.JSONDecodeError):
        return fault.lineno, f"JSON cut off or broken: {fault.msg}; take an older checkpoint"
    return 0, "no JSON: not UTF-8, or nested too deeply"


def _number(value: Any) -> float | None:
    """Return a metric's value; NaN for null, None for what is no number."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    whole = number is not None and abs(number) < 2.0**53 and number == math.floor(number)
    return int(number) if whole else None


def _run_folder(path: Path) -> Path:
    return path.parent.parent if _checkpoint(path) else path.parent


def _checkpoint(path: Path) -> int:
    """Return the number in the name of a checkpoint's folder, 0 for any other folder."""
    name = path.parent.name
    number = name.removeprefix(_CHECKPOINT)
    return int(number) if number != name and number.isdecimal() else 0

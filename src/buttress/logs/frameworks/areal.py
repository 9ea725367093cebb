"""AReaL: ``rollout/<version>/<task_id>.jsonl``, one file per task, with ``dump_to_file``.

To the schema of inclusionAI/AReaL at commit 4aef98d (``WorkflowExecutor._dump_trajectory``):
task_id, sample_idx, seqlen, prompt_len, head_version, tail_version, reward, prompt, completion. A
task is a group. Rejected trajectories are dumped too, so a ``should_accept_fn`` filters nothing
here. Rollouts without a completion are not written.

A step is ``tail_version``, the weights that finished the task; it is trained at that step or later
(our reading). Task numbers are counted by each process and again after a restart, and files are
appended to: within a task, a sample number that does not grow begins another group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.jsonl import JsonlRollouts, Plan, Row
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan

_REQUIRED = {"task_id", "sample_idx", "seqlen", "prompt_len", "tail_version", "reward"}
_OURS = {
    "group": "task_id",
    "sample": "sample_idx",
    "step": "tail_version",
    "reward": "reward",
    "prompt": "prompt",
    "completion": "completion",
    # tokens of both, and of the prompt; `_lengths` makes one column of them
    "seqlen": "seqlen",
    "prompt_len": "prompt_len",
}
_STEP = "step: the version of the weights that finished the task"
_AGAIN = "the task numbers start again, as after a restart or in another process; told apart"
_EVALUATIONS = "rollouts of evaluations, left out; name the folder to read them"

Columns = dict[str, Any]


class ArealRollouts:
    """Reads the task files of a run."""

    name: ClassVar[str] = "areal"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have AReaL's columns."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def run_of(self, path: Path) -> Path:
        """Return the folder of the run that a file belongs to."""
        return path.parent.parent if path.parent.name.isdecimal() else path.parent

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the task files of a run."""
        tasks = _Tasks(builder)
        engine = JsonlRollouts(builder, partial(_plan, tasks=tasks))
        for path in _training(files, builder):
            tasks.next_file(path)
            engine.read(path)


def _training(files: Sequence[Path], builder: RolloutBuilder) -> list[Path]:
    """Return the files without those of evaluations, if there are others."""
    evaluations = {path for path in files if path.parent.parent.name == "eval-rollout"}
    training = [path for path in files if path not in evaluations]
    if evaluations and training:
        first = next(path for path in files if path in evaluations)
        builder.problem(first, 0, f"{_EVALUATIONS} ({len(evaluations)} files)")
        return training
    return list(files)


def _plan(row: Row, path: Path, *, builder: RolloutBuilder, tasks: _Tasks) -> Plan | None:
    columns = {name: column for name, column in _OURS.items() if column in row}
    for name, column in builder.options.map.items():
        if column in row:
            columns[name] = column
            builder.mapped.add(name)
    builder.columns.update(dict.fromkeys(row))
    if "reward" not in columns and "completion" not in columns:
        return None
    if "step" in columns:
        builder.infer(_STEP)
    return Plan(columns, converts=(_lengths, tasks.told_apart))


def _lengths(columns: Columns) -> Columns:
    """Return the columns with the length of the completion, without those that it is made of."""
    rest = dict(columns)
    whole, prompt = (_floats(rest.pop(name, [])) for name in ("seqlen", "prompt_len"))
    known = len(whole) == len(prompt) > 0
    return rest | {"length": whole - prompt} if known else rest


def _floats(column: Any) -> Any:
    if isinstance(column, list):
        return np.array([number_or_nan(one) for one in column])
    return column


class _Tasks:
    """Tells tasks of one number apart; a task's samples are written in ascending order."""

    def __init__(self, builder: RolloutBuilder) -> None:
        self._builder = builder
        self._last: dict[Any, float] = {}
        self._turn: dict[Any, int] = {}
        self._path = Path()

    def next_file(self, path: Path) -> None:
        """Forget the tasks of other files."""
        self._path = path
        self._last.clear()
        self._turn.clear()

    def told_apart(self, columns: Columns) -> Columns:
        """Return the columns with a group for each time that a task number was given out."""
        if "group" not in columns or "sample" not in columns:
            return columns
        samples = _floats(columns["sample"])
        groups = [
            self._named(task, sample)
            for task, sample in zip(columns["group"], samples.tolist(), strict=True)
        ]
        return columns | {"group": groups}

    def _named(self, task: Any, sample: float) -> Any:
        if task is None:
            return None
        if sample <= self._last.get(task, -1.0):
            self._turn[task] = self._turn.get(task, 1) + 1
            self._builder.problems.once((self._path, "again"), str(self._path), 0, _AGAIN)
        self._last[task] = sample
        turn = self._turn.get(task, 1)
        # not the bare number: evaluations count too, so a hole in the numbers means nothing
        return f"task {task}" if turn == 1 else f"task {task} ({turn})"

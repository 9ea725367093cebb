"""Weights & Biases: the ``run-<id>.wandb`` file that an offline (or online) run leaves.

The package has no reader of its own any more and its protobuf classes come with 80 MB, hence
`records` and `wire`. Field numbers are those of ``wandb/proto/wandb_internal.proto`` (0.31).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from buttress.logs.builder import RolloutBuilder
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.trackers.records import WANDB_START, wandb_records
from buttress.logs.trackers.runs import StepRows, TrackedRun, take
from buttress.logs.trackers.wire import BYTES, VARINT, WireError, fields, messages, signed, text

_HISTORY, _RUN = 2, 17  # of a Record
_ITEM, _STEP = 1, 2  # of a HistoryRecord
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16  # of a HistoryItem
_ID, _PROJECT, _NAME, _START = 1, 3, 8, 17  # of a RunRecord
_STEP_LIMIT = 1 << 53
_LONGEST_NUMBER = 400
_WORDS = {b"true": 1.0, b"false": 0.0, b"null": None}


class WandbFiles:
    """Reads W&B's transaction logs; the files of one resumed run are one run."""

    name: ClassVar[str] = "wandb"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".wandb",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the file starts as W&B's do."""
        return head.startswith(WANDB_START)

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        runs: dict[str, _Run] = {}
        for path in files:
            known = _Run(path.stem.removeprefix("run-"))
            for message in wandb_records(path, builder):
                try:
                    known = _take(message, known, runs)
                except WireError as fault:
                    builder.problem(
                        path, 0, f"a record that is none ({fault}), left out", kind="wire"
                    )
            runs.setdefault(known.id, known)
            known.paths.append(path)
        take([one.tracked() for one in runs.values()], builder, options)


class _Run:
    def __init__(self, id: str) -> None:
        self.id = self.name = id
        self.started = 0.0
        self.paths: list[Path] = []
        self.rows = StepRows()

    def tracked(self) -> TrackedRun:
        metrics = self.rows.metrics
        return TrackedRun(
            self.id, self.name, self.paths, self.started, metrics.names, lambda: metrics
        )


def _take(message: bytes, run: _Run, runs: dict[str, _Run]) -> _Run:
    """Take a record; return the run that the ones after it belong to."""
    for number, kind, value in fields(message):
        if kind != BYTES or number not in (_HISTORY, _RUN):
            continue
        assert isinstance(value, bytes)
        if number == _RUN:
            run = _named(value, run, runs)
        else:
            row, step = _history(value)
            run.rows.add(row, step)
    return run


def _named(record: bytes, run: _Run, runs: dict[str, _Run]) -> _Run:
    found = {number: value for number, _, value in fields(record) if isinstance(value, bytes)}
    if _ID in found:
        id = text(found[_ID])
        run = runs.setdefault(id, run if run.id == id else _Run(id))
    name = text(found.get(_NAME, b""))
    project = text(found.get(_PROJECT, b""))
    run.name = name or (f"{project}/{run.id}" if project else run.id)
    for number, kind, value in fields(found.get(_START, b"")):
        if number == 1 and kind == VARINT:
            run.started = float(value)
    return run


def _history(record: bytes) -> tuple[dict[str, Any], int]:
    """Return the metrics of a row, and its number."""
    row: dict[str, Any] = {}
    for item in messages(record, _ITEM):
        keys, value = _item(item)
        inner = row
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                break
        else:
            if keys:
                inner[keys[-1]] = value
    step = row.get("_step")
    if not isinstance(step, float):
        step = next(_numbers(record), 0)
    return row, int(step) if abs(step) < _STEP_LIMIT else 0


def _numbers(record: bytes) -> Iterator[int]:
    for message in messages(record, _STEP):
        for number, kind, value in fields(message):
            if number == 1 and kind == VARINT:
                assert isinstance(value, int)
                yield signed(value)


def _item(item: bytes) -> tuple[list[str], Any]:
    keys, value = [], b""
    for number, kind, found in fields(item):
        if kind == BYTES:
            assert isinstance(found, bytes)
            if number in (_KEY, _NESTED_KEY):
                keys.append(text(found))
            elif number == _VALUE:
                value = found
    return keys, _value(value)


def _value(data: bytes) -> Any:
    """Return a number, boolean or null as it stands in JSON; an empty tuple for anything else."""
    if data[:1] in b'"[{' or len(data) > _LONGEST_NUMBER:
        return ()
    try:
        return float(data)
    except ValueError:
        return _WORDS.get(data, ())

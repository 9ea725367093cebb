"""TensorBoard: event files, the scalars in them.

A dozen fields of three messages are all that scalars need, so they are read with `records` and
`wire` and not with the package (130 MB with what it pulls in). Field numbers are those of
``tensorflow/core/util/event.proto``, ``framework/summary.proto`` and ``framework/tensor.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from buttress.logs.builder import RolloutBuilder
from buttress.logs.metrics import MetricRows
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.trackers.records import event_records
from buttress.logs.trackers.runs import TrackedRun, take
from buttress.logs.trackers.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    WireError,
    fields,
    floats,
    messages,
    signed,
    text,
)

_TIME, _STEP, _SUMMARY, _SESSION = 1, 2, 5, 7  # of an Event
_VALUE = 1  # of a Summary
_TAG, _SIMPLE, _TENSOR = 1, 2, 8  # of a Summary.Value
_STATUS, _STARTED = 1, 1  # of a SessionLog
_TYPE, _CONTENT = 1, 4  # of a TensorProto
_PACKED = {1: (5, "f"), 2: (6, "d")}  # its numbers by type: float, double
_STEP_LIMIT = 1 << 53


class TensorboardEvents:
    """Reads event files; those of one folder are one run."""

    name: ClassVar[str] = "tensorboard"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = ()

    def knows(self, path: Path) -> bool:
        """Return whether the name is that of an event file (it ends in a host, not a suffix)."""
        return "tfevents" in path.name

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the name or the first record is that of an event file."""
        return self.knows(path) or b"brain.Event:" in head[:64]

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        folders: dict[Path, list[Path]] = {}
        for path in files:
            folders.setdefault(path.parent, []).append(path)
        runs = [_run(folder, found, builder) for folder, found in folders.items()]
        take([one for one in runs if one.metrics] or runs, builder, options)


def _run(folder: Path, files: Sequence[Path], builder: RolloutBuilder) -> TrackedRun:
    metrics, started = MetricRows(), 0.0
    for path in files:
        for record in event_records(path, builder):
            try:
                time = _event(record, metrics)
            except WireError as fault:
                builder.problem(path, 0, f"an event that is none ({fault}), left out", kind="wire")
            else:
                started = started or time
    name = folder.resolve().name
    return TrackedRun(str(folder), name, files, started, metrics.names, lambda: metrics)


def _event(record: bytes, metrics: MetricRows) -> float:
    """Take an event; return its time, 0 where it has none."""
    time, step, summary, session = 0.0, 0, b"", b""
    for number, kind, value in fields(record):
        if number == _STEP and kind == VARINT:
            assert isinstance(value, int)
            step = signed(value)
        elif isinstance(value, bytes):
            if number == _TIME and kind == FIXED64:
                (time,) = struct.unpack("<d", value)
            elif number == _SUMMARY and kind == BYTES:
                summary += value
            elif number == _SESSION and kind == BYTES:
                session = value
    if (_STATUS, VARINT, _STARTED) in fields(session):
        metrics.forget_from(step)  # a restart: what had been logged beyond it is void
    for one in messages(summary, _VALUE) if abs(step) < _STEP_LIMIT else ():
        tag, number = _scalar(one)
        if number is not None:
            metrics.add(step, tag, number)
    return time


def _scalar(value: bytes) -> tuple[str, float | None]:
    tag, number = "", None
    for field, kind, data in fields(value):
        if not isinstance(data, bytes):
            continue
        if field == _TAG and kind == BYTES:
            tag = text(data)
        elif field == _SIMPLE and kind == FIXED32:
            (number,) = struct.unpack("<f", data)
        elif field == _TENSOR and kind == BYTES:
            number = _single(data)
    return tag, number


def _single(tensor: bytes) -> float | None:
    """Return the number of a tensor that holds one, as TensorFlow 2 writes its scalars."""
    kinds = [value for number, _, value in fields(tensor) if number == _TYPE]
    if len(kinds) != 1 or not isinstance(kinds[0], int) or kinds[0] not in _PACKED:
        return None
    place, letter = _PACKED[kinds[0]]
    numbers = [one for data in _stored(tensor, place) for one in floats(data, letter)]
    return numbers[0] if len(numbers) == 1 else None


def _stored(tensor: bytes, place: int) -> Iterator[bytes]:
    for number, _, value in fields(tensor):
        if number in (_CONTENT, place) and isinstance(value, bytes):
            yield value

"""Stores of trackers for the tests: recorded ones unpacked, event files by TensorBoard's writer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import zstandard
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

RECORDED = Path(__file__).parent / "data" / "trackers"
LOGGED: dict[str, list[dict[str, float]]] = json.loads((RECORDED / "logged.json").read_text())
STORES = ("wandb", "mlflow.db", "mlruns", "trackio.db", "trackio.parquet", "tensorboard")


def store(name: str, folder: Path) -> Path:
    """Return a store with the runs `healthy` and `dead` of the recorded values."""
    if name == "tensorboard":
        for at, (run, rows) in enumerate(LOGGED.items()):
            write_events(folder / "runs" / run, rows, time=100.0 + at)
        return folder / "runs"
    packed = RECORDED / f"{name}.zst"
    if not packed.exists():
        return RECORDED / name
    path = folder / name
    path.write_bytes(zstandard.ZstdDecompressor().decompress(packed.read_bytes()))
    return path


def write_events(
    folder: Path,
    rows: Iterable[Mapping[str, float]],
    *,
    first: int = 1,
    time: float = 100.0,
    tensors: bool = False,
    purge: int | None = None,
) -> Path:
    """Write one event per scalar, as torch does (as TensorFlow 2 with `tensors`); the file."""
    before = set(folder.glob("*"))
    writer = EventFileWriter(str(folder), filename_suffix=f".{len(before)}")
    if purge is not None:
        restart = SessionLog(status=SessionLog.START)
        writer.add_event(Event(wall_time=time, step=purge, session_log=restart))
    for step, row in enumerate(rows, first):
        for name, value in row.items():
            tag = f"train/{name}"
            one = (
                Summary.Value(tag=tag, tensor=TensorProto(dtype=1, float_val=[value]))
                if tensors
                else Summary.Value(tag=tag, simple_value=value)
            )
            writer.add_event(Event(wall_time=time + step, step=step, summary=Summary(value=[one])))
    writer.close()
    (made,) = set(folder.glob("*")) - before
    return made


def column(run: str, name: str) -> list[float]:
    """Return what was logged under a name."""
    return [row[name] for row in LOGGED[run]]


def wire(*fields: tuple[int, Any]) -> bytes:
    """Return a protobuf message: ints as varints, bytes and texts with their length."""
    return b"".join(
        varint(number << 3) + varint(value)
        if isinstance(value, int)
        else varint(number << 3 | 2) + varint(len(data := _bytes(value))) + data
        for number, value in fields
    )


def varint(value: int) -> bytes:
    """Return a number in seven bits a byte, the lowest first."""
    if value < 0x80:
        return bytes([value])
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else value

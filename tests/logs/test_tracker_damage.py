"""Trackers' files cut off, flipped, locked, hostile: what can be read is, the rest is said."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from buttress.logs.trackers.records import EVENT_LIMIT, WANDB_START, masked_crc32c
from buttress.logs.trackers.wire import WireError, fields
from tests.logs.tracking import LOGGED, RECORDED, column, store, varint, wire, write_events

WANDB = next(RECORDED.glob("wandb/*healthy01/*.wandb"))
SIZES = {"wandb": len(WANDB.read_bytes())}
EVENTS = "events.out.tfevents.1.host.1.0"


def pieces(*records: bytes) -> bytes:
    """Return a W&B file of records, each cut into pieces of at most 20000 bytes."""
    data = bytearray(WANDB_START)
    for record in records:
        parts = [record[at : at + 20000] for at in range(0, len(record), 20000)] or [b""]
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            kind = (1 if last else 2) if not at else (4 if last else 3)
            left = 32768 - len(data) % 32768
            if left < 7 + len(part):
                data += bytes(left)
            crc = zlib.crc32(part, zlib.crc32(bytes([kind])))
            data += struct.pack("<IHB", crc, len(part), kind) + part
    return bytes(data)


def history(step: int, **metrics: str) -> bytes:
    """Return a W&B record with a row of metrics, values as JSON."""
    items = [(1, wire((2, name), (16, value))) for name, value in metrics.items()]
    return wire((2, wire(*items, (2, wire((1, step))))))


def event(data: bytes, *, size: int | None = None) -> bytes:
    """Return a record of an event file."""
    head = struct.pack("<Q", len(data) if size is None else size)
    checks = (masked_crc32c(one).to_bytes(4, "little") for one in (head, data))
    return head + next(checks) + data + next(checks)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def said(run: bt.Run) -> str:
    return " | ".join(problem.message for problem in run.problems)


def test_large_records_go_over_several_blocks(tmp_path):
    long = wire((2, wire((1, wire((2, "text"), (16, '"' + "x" * 90000 + '"'))))))
    rows = [history(step, loss=str(step / 4)) for step in range(400)]
    run = bt.read(written(tmp_path / "a.wandb", pieces(*rows[:200], long, *rows[200:], long)))
    assert run.problems == ()
    assert run.scalar("loss").value.tolist() == [step / 4 for step in range(400)]


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(1, SIZES["wandb"] - 1))
def test_every_cut_of_a_wandb_file(tmp_path_factory, cut):
    path = written(tmp_path_factory.mktemp("cut") / "run-x.wandb", WANDB.read_bytes()[:cut])
    if cut < len(WANDB_START):
        with pytest.raises(InputError):
            bt.read(path)
        return
    run = bt.read(path)
    if "loss" in run.scalars:
        steps = run.scalars["loss"].step.tolist()
        assert run.scalars["loss"].value.tolist() == column("healthy", "loss")[: len(steps)]


@settings(max_examples=60, deadline=None)
@given(at=st.integers(7, SIZES["wandb"] - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_wandb_file_costs_a_record_and_is_said(tmp_path_factory, at, bit):
    data = bytearray(WANDB.read_bytes())
    data[at] ^= 1 << bit
    run = bt.read(written(tmp_path_factory.mktemp("flip") / "run-x.wandb", bytes(data)))
    assert run.problems
    logged = dict(enumerate(column("healthy", "loss"), 1))
    if "loss" in run.scalars:
        pairs = zip(*(one.tolist() for one in run.scalars["loss"]), strict=True)
        assert all(logged[step] == value for step, value in pairs)


@pytest.mark.parametrize(
    "record",
    [
        b"\xff" * 40,
        wire((2, b"\x0a\xff\xff\xff\xff\x0f")),
        wire((2, wire((1, wire((2, "a"), (2, "b"), (16, "[" * 5000)))))),
        wire((2, wire((1, wire((2, "a"), (16, "1"))), (1, wire((2, "a"), (2, "b"), (16, "1")))))),
        wire((17, wire((1, b"\xff\xfe"), (8, "\x1b[2J"), (17, b"\xff")))),
        wire((2, wire((1, wire((2, "loss"), (16, "9" * 390)))))),
        history(2**64 - 1, loss="1e999"),
    ],
)  # fmt: skip
def test_records_that_are_none(tmp_path, record):
    good = [history(step, loss="0.5", kl="0.25") for step in range(3)]
    run = bt.read(written(tmp_path / "a.wandb", pieces(*good, record, history(3, loss="0.5"))))
    assert run.scalars["kl"].value.tolist() == [0.25] * 3
    assert run.scalars["loss"].step.max() == 3


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_an_error(data):
    try:
        found = list(fields(data))
    except WireError:
        return
    assert sum(len(value) for _, _, value in found if isinstance(value, bytes)) <= len(data)


def test_the_wire_format_is_that_of_protobuf():
    from tensorboard.compat.proto.event_pb2 import Event

    message = Event(wall_time=1.5, step=-3, file_version="brain.Event:2").SerializeToString()
    found = {number: value for number, _, value in fields(message)}
    assert struct.unpack("<d", found[1]) == (1.5,)
    assert found[2] == 2**64 - 3
    assert found[3] == b"brain.Event:2"
    assert varint(300) == b"\xac\x02"


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> bytes:
    """Return an event file with the recorded healthy run."""
    return write_events(tmp_path_factory.mktemp("events"), LOGGED["healthy"]).read_bytes()


@pytest.mark.parametrize("share", [0.0001, 0.003, 0.01, 0.1, 0.5, 0.77, 0.999])
@pytest.mark.parametrize("kind", ["cut", "flip"])
def test_damaged_event_files(tmp_path, events, share, kind):
    at = max(int(share * len(events)), 1)
    data = (
        events[:at] if kind == "cut" else events[:at] + bytes([events[at] ^ 4]) + events[at + 1 :]
    )
    run = bt.read(written(tmp_path / EVENTS, data))
    logged = dict(enumerate(column("healthy", "loss"), 1))
    found = run.scalars.get("loss", ((), ()))
    pairs = list(zip(*map(list, found), strict=True))
    assert all(logged[step] == pytest.approx(value, rel=1e-6) for step, value in pairs)
    assert run.problems
    if share > 0.4:
        assert pairs


def test_a_damaged_event_costs_itself_a_damaged_length_the_rest(tmp_path):
    def loss(step: int) -> bytes:
        value = wire((1, "loss")) + b"\x15" + struct.pack("<f", 0.5)
        return event(wire((2, step), (5, wire((1, value)))))

    good = [loss(step) for step in range(1, 7)]
    spoilt = good[2][:14] + b"\xff" + good[2][15:]
    run = bt.read(written(tmp_path / EVENTS, b"".join([*good[:2], spoilt, *good[3:]])))
    assert run.scalar("loss").step.tolist() == [1, 2, 4, 5, 6]
    assert "1 damaged record" in said(run)
    spoilt = b"\xff" + good[2][1:]
    run = bt.read(written(tmp_path / EVENTS, b"".join([*good[:2], spoilt, *good[3:]])))
    assert run.scalar("loss").step.tolist() == [1, 2]
    assert f"damaged from byte {len(good[0]) * 2} on" in said(run)
    image = event(bytes(EVENT_LIMIT + 1))
    run = bt.read(written(tmp_path / EVENTS, b"".join([good[0], image, good[1]])))
    assert run.scalar("loss").step.tolist() == [1, 2]
    assert run.problems == ()


@pytest.mark.parametrize("size", [2**63, 2**40, EVENT_LIMIT * 3])
def test_a_huge_length_is_not_believed(tmp_path, events, size):
    run = bt.read(written(tmp_path / EVENTS, events + event(b"x", size=size)))
    assert len(run.scalar("loss").step) == 12
    assert "middle of a record" in said(run)


def test_a_run_that_only_began(tmp_path):
    version = b"\x09" + struct.pack("<d", 1.0) + wire((3, "brain.Event:2"))
    run = bt.read(written(tmp_path / EVENTS, event(version)))
    assert "no run with metrics" in said(run)
    run = bt.read(written(tmp_path / "a.wandb", pieces(wire((17, wire((1, "a"), (8, "b")))))))
    assert "no run with metrics; there are: b (a)" in said(run)


@pytest.mark.parametrize("name", ["a.wandb", EVENTS, "mlflow.db", "demo.db"])
@pytest.mark.parametrize("data", [b"", b"no tracker's file\n", b"SQLite format 3\0" + bytes(200)])
def test_files_that_are_none(tmp_path, capsys, name, data):
    path = written(tmp_path / name, data)
    with pytest.raises(SystemExit) as done:
        main(["diagnose", str(path)])
    out, err = capsys.readouterr()
    assert (done.value.code, out) == (2, "")
    assert name in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["mlflow.db", "trackio.db"])
@pytest.mark.parametrize("keep", [0.02, 0.3, 0.7, 0.97])
def test_a_database_that_was_cut_off(tmp_path, name, keep):
    path = store(name, tmp_path)
    data = path.read_bytes()
    run = bt.read(written(path, data[: int(keep * len(data))]), run="healthy")
    assert run.problems
    assert "damaged" in said(run)
    if "loss" in run.scalars:
        assert set(run.scalars["loss"].value.tolist()) <= set(column("healthy", "loss")) | {99.0}


@pytest.mark.parametrize("name", ["mlflow.db", "trackio.db"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
@example(seed=487)  # the message of SQLite is no UTF-8
def test_spoilt_pages_end_in_a_problem_or_in_nothing_worse(tmp_path_factory, name, seed):
    path = store(name, tmp_path_factory.mktemp("spoilt"))
    data = bytearray(path.read_bytes())
    at = 100 + seed * 997 % (len(data) - 600)
    data[at : at + 500] = bytes((seed + one * 31) % 256 for one in range(500))
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        bt.read(path, run="healthy")


def test_a_locked_database(tmp_path):
    path = store("mlflow.db", tmp_path)
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    run = bt.read(path)
    assert "another process is writing it" in said(run)
    writer.rollback()
    writer.close()
    assert bt.read(path).scalars


def test_a_view_that_never_ends_is_no_table(tmp_path):
    path = tmp_path / "hostile.db"
    with sqlite3.connect(path) as writer:
        writer.execute(
            "CREATE VIEW metrics AS WITH RECURSIVE n(step) AS (SELECT 1 UNION ALL SELECT step + 1 "
            "FROM n) SELECT 'loss' AS key, step, 0.5 AS value, 'r' AS run_uuid FROM n"
        )
    writer.close()
    with pytest.raises(InputError, match="hostile"):
        bt.read(path)


@pytest.mark.parametrize("blob", [b"{", b"[1]", b"\xff", b"[" * 9999, None, 7, "{}"])
def test_rows_of_trackio_that_hold_no_object(tmp_path, blob):
    path = store("trackio.db", tmp_path)
    with sqlite3.connect(path) as writer:
        writer.execute(
            "UPDATE metrics SET metrics = ? WHERE id = 4", ["" if blob is None else blob]
        )
    writer.close()
    run = bt.read(path, run="healthy")
    assert run.scalar("loss").step.tolist() == [1, 2, *range(4, 13)]
    assert ("row 4 of metrics" in said(run)) == (blob != "{}")


def test_lines_of_mlflow_that_are_no_metrics(tmp_path):
    path = shutil.copytree(RECORDED / "mlruns", tmp_path / "mlruns")
    for loss in path.glob("*/*/metrics/loss"):
        loss.write_bytes(
            loss.read_bytes() + b"half a li\n1 x 3\n1796102457979 0.5 13\n\xff\n17961024"
        )
    run = bt.read(path, run="healthy")
    assert run.scalar("loss").step.tolist() == list(range(1, 14))
    assert [(Path(one.file).name, one.line) for one in run.problems] == [
        ("loss", 14), ("loss", 15), ("loss", 17), ("loss", 18)
    ]  # fmt: skip


def test_a_broken_store_beside_rollouts_is_one_problem(tmp_path):
    shutil.copytree(RECORDED.parent / "verl_v1", tmp_path / "rollouts")
    written(tmp_path / "mlflow.db", b"SQLite format 3\0" + bytes(100))
    run = bt.read(tmp_path)
    assert len(run.groups) == 12
    assert [Path(one.file).name for one in run.problems] == ["mlflow.db"]

"""Sinks: what arrives, and that one which hangs or throws never holds up a run."""

from __future__ import annotations

import itertools
import json
import logging
import math
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import buttress as bt
from buttress.errors import MissingExtraError, UsageError
from buttress.hooks.sinks import (
    Call,
    JsonLines,
    MLflow,
    Prometheus,
    TensorBoard,
    Trackio,
    WandB,
    known,
)
from buttress.hooks.sinks import outbox as outboxes
from buttress.hooks.sinks.outbox import Outbox, Row
from tests.helpers import require
from tests.hooks.monitored_runs import collapsed, mixed

ROWS = [
    Row(1, {"buttress/acr": 0.5, "buttress/acr/reward/a b": 0.25, "buttress/forecast": math.nan}),
    Row(2, {"buttress/acr": 1.0, "buttress/acr/reward/a b": 0.75, "buttress/forecast": math.nan}),
]


FULL = Path("/dev/full")


class Kept:
    """A sink that keeps its rows; `gate` may hold it, `fault` may be raised."""

    def __init__(self, fault=None, gate=None):
        self.rows, self.fault, self.gate, self.closed = [], fault, gate, False

    def write(self, row):
        if self.gate is not None:
            self.gate.wait(20)
        if self.fault is not None:
            raise self.fault
        self.rows.append(row)

    def close(self):
        self.closed = True


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- the outbox ----------------------------------------------------------------------------------


def test_rows_arrive_in_order_and_the_sink_is_closed():
    sink = Kept()
    box = Outbox(sink)
    for step in range(50):
        box.put(Row(step, {}))
    box.close()
    assert [row.step for row in sink.rows] == list(range(50))
    assert sink.closed
    assert (box.written, box.dropped) == (50, 0)


def test_a_sink_that_throws_is_left_alone_for_longer_each_time(caplog):
    sink = Kept(OSError("no space left on device"))
    box = Outbox(sink, first=0.02, longest=0.2)
    tried = []
    sink.write = lambda row: tried.append(time.monotonic()) or Kept.write(sink, row)
    for step in range(6):
        box.put(Row(step, {}))
    until(lambda: box.dropped == 6)
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    for pause, least in zip(pauses, [0.02, 0.04, 0.08, 0.16, 0.2], strict=True):
        assert pause >= least
    sink.fault = None
    box.put(Row(6, {}))
    until(lambda: box.written == 1)
    box.close()
    assert caplog.text.count("no space left on device") == 1
    assert "lost 6 rows of this run, 1 arrived" in caplog.text


def test_a_sink_that_hangs_loses_its_thread_and_is_given_up_at_last(caplog):
    gate = threading.Event()
    box = Outbox(Kept(gate=gate), limit=0.05, lives=2)
    slowest = 0.0
    for step in range(30):
        start = time.monotonic()
        box.put(Row(step, {}))
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.02)
    assert slowest < 0.05
    assert box.given_up
    start = time.monotonic()
    box.close()
    assert time.monotonic() - start < 1
    gate.set()
    assert (box.written, box.dropped) == (0, 30)
    assert "gets no more rows" in caplog.text


def test_a_sink_that_hung_once_gets_the_later_rows():
    gate = threading.Event()
    sink = Kept(gate=gate)
    box = Outbox(sink, limit=0.05)
    box.put(Row(0, {}))
    until(lambda: box._since is not None)
    time.sleep(0.1)
    sink.gate = None
    box.put(Row(1, {}))
    until(lambda: box.written == 1)
    gate.set()
    box.close()
    assert (box.written, box.dropped) == (1, 1)


def test_a_slow_sink_loses_the_oldest_rows(caplog):
    gate = threading.Event()
    sink = Kept(gate=gate)
    box = Outbox(sink, size=3)
    box.put(Row(0, {}))
    until(lambda: box._since is not None)
    for step in range(1, 8):
        box.put(Row(step, {}))
    gate.set()
    box.close()
    assert [row.step for row in sink.rows] == [0, 5, 6, 7]
    assert box.dropped == 4
    assert "cannot keep up" in caplog.text


def test_closing_does_not_wait_for_a_sink_that_hangs():
    gate = threading.Event()
    box = Outbox(Kept(gate=gate), limit=30)
    for step in range(3):
        box.put(Row(step, {}))
    start = time.monotonic()
    box.close(wait=0.1)
    assert time.monotonic() - start < 1
    box.put(Row(3, {}))
    gate.set()
    until(lambda: threading.active_count() < 50)
    assert box.dropped >= 3


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    jumps = itertools.cycle([0.0, 1e9, -1e9, 5.0])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    sink = Kept()
    box = Outbox(sink)
    for step in range(5):
        box.put(Row(step, {}))
    box.close()
    assert (len(sink.rows), box.dropped) == (5, 0)


# --- in a monitor --------------------------------------------------------------------------------


def test_a_row_is_sent_when_its_step_is_over():
    sink = Kept()
    monitor = bt.Monitor(sinks=[sink])
    monitor.update(collapsed(), step=1)
    monitor.update(mixed(), step=1)
    monitor.update(mixed(), step=2)
    until(lambda: sink.rows)
    assert (sink.rows[0].step, sink.rows[0].metrics["buttress/acr"]) == (1, 0.5)
    monitor.close()
    assert [row.step for row in sink.rows] == [1, 2]
    monitor.close()
    assert len(sink.rows) == 2


def test_a_row_holds_the_reading_and_the_events_of_its_own_step():
    sink, est = Kept(), bt.estimator("avspo")
    monitor = bt.Monitor(sinks=[sink], policies=[bt.Policy("acr > 0.5", for_steps=1)], warmup=0)
    for step, groups in enumerate([mixed(), collapsed(), mixed()], 1):
        est(groups)
        monitor.update(groups, step=step, reading=est)
    monitor.close()
    assert [row.metrics["buttress/triggered"] for row in sink.rows] == [0, 1, 0]
    assert [[event["step"] for event in row.events] for row in sink.rows] == [[], [2], []]


@pytest.mark.parametrize("fault", [RuntimeError("down"), KeyboardInterrupt(), SystemExit(3)])
def test_a_broken_sink_stops_neither_the_run_nor_the_others(fault):
    good = Kept()
    monitor = bt.Monitor(sinks=[Kept(fault), good])
    for step in range(1, 6):
        monitor.update(mixed(), step=step)
    monitor.close(wait=5)
    assert [row.step for row in good.rows] == [1, 2, 3, 4, 5]


def test_losses_are_among_the_metrics():
    monitor = bt.Monitor(sinks=[Kept(RuntimeError("down"))])
    for step in range(1, 4):
        monitor.update(mixed(), step=step)
    until(lambda: monitor.metrics()["buttress/sink_rows_lost"] >= 1)
    monitor.close(wait=0.1)


# --- files and functions -------------------------------------------------------------------------


def sent(sink, rows=ROWS):
    box = Outbox(sink)
    for row in rows:
        box.put(row)
    box.close()
    assert (box.written, box.dropped) == (len(rows), 0)


def test_json_lines(tmp_path):
    path = tmp_path / "deep" / "run.jsonl"
    sent(JsonLines(path))
    sent(JsonLines(path), [Row(3, {"a": 1.0}, [{"step": 3, "message": "text"}])])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert lines[0]["metrics"]["buttress/forecast"] is None
    assert lines[0]["metrics"]["buttress/acr"] == 0.5
    assert lines[2]["events"] == [{"step": 3, "message": "text"}]


def test_json_lines_go_on_after_a_run_that_was_killed_while_writing(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "metr')
    sent(JsonLines(path), ROWS[:1])
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[2])["step"] == 1


def test_json_lines_on_a_full_disc_lose_rows_and_break_none():
    if not FULL.exists():
        pytest.skip("needs /dev/full")
    box = Outbox(_full_disc(), first=0.0, longest=0.0)
    for row in ROWS:
        box.put(row)
    box.close()
    assert (box.written, box.dropped) == (0, 2)


def _full_disc():
    sink = JsonLines.__new__(JsonLines)
    sink.path, sink._torn = FULL, False
    return sink


def test_json_lines_in_a_place_that_cannot_be_written_fail_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        JsonLines(tmp_path / "file" / "run.jsonl")


def test_a_function():
    seen = []
    sent(Call(lambda step, metrics: seen.append((step, metrics["buttress/acr"]))))
    assert seen == [(1, 0.5), (2, 1.0)]


# --- trackers: the real software where it is installed -------------------------------------------


def test_tensorboard(tmp_path):
    require("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sent(TensorBoard(tmp_path))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.step, one.value) for one in events.Scalars("buttress/acr")] == [(1, 0.5), (2, 1)]
    assert "buttress/forecast" not in events.Tags()["scalars"]


def test_prometheus_by_http_on_the_loopback_address_only():
    require("prometheus_client")
    sink = Prometheus(port=0)
    assert sink._server.server_address[0] == "127.0.0.1"
    box = Outbox(sink)
    for row in ROWS:
        box.put(row)
    until(lambda: box.written == 2)
    with urllib.request.urlopen(f"http://127.0.0.1:{sink.port}/metrics", timeout=5) as page:
        text = page.read().decode()
    assert "buttress_acr 1.0\n" in text
    assert "buttress_acr_reward_a_b 0.75\n" in text
    assert "buttress_forecast NaN\n" in text
    assert "buttress_step 2.0\n" in text
    with pytest.raises(UsageError, match=f"port {sink.port} of 127.0.0.1 cannot be used"):
        Prometheus(port=sink.port)
    box.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{sink.port}/metrics", timeout=5)


def test_prometheus_as_a_text_file(tmp_path):
    require("prometheus_client")
    sent(Prometheus(textfile=tmp_path / "buttress.prom"))
    assert "buttress_acr 1.0\n" in (tmp_path / "buttress.prom").read_text()
    with pytest.raises(UsageError, match=r"reads \*\.prom files only"):
        Prometheus(textfile=tmp_path / "buttress.txt")
    with pytest.raises(UsageError, match="either port= or textfile="):
        Prometheus()


@pytest.mark.filterwarnings("ignore")
def test_wandb_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")  # not in the test group: large
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(UsageError, match="there is no W&B run"):
        WandB()
    run = wandb.init(project="test", dir=str(tmp_path))
    sent(WandB())
    assert run.summary["buttress/acr"] == 1.0
    assert run.summary["buttress/step"] == 2
    run.finish()


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")  # not in the test group: large
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with pytest.raises(UsageError, match="there is no MLflow run"):
        MLflow()
    with mlflow.start_run() as run:
        sent(MLflow())
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "buttress/acr")
    assert [(one.step, one.value) for one in history] == [(1, 0.5), (2, 1.0)]


@pytest.mark.filterwarnings("ignore")
def test_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio")  # not in the test group: large
    from trackio.sqlite_storage import SQLiteStorage

    with pytest.raises(UsageError, match="there is no Trackio run"):
        Trackio()
    run = trackio.init(project="test", name="mine")
    sent(Trackio())
    trackio.finish()
    rows = SQLiteStorage.get_logs("test", run.name)
    assert [row["buttress/acr"] for row in rows if "buttress/acr" in row] == [0.5, 1.0]


def test_what_is_missing_is_named_with_the_command(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("buttress.hooks.sinks.importlib.import_module", refuse)
    for make in (WandB, MLflow, Trackio, lambda: TensorBoard("x"), lambda: Prometheus(port=0)):
        with pytest.raises(MissingExtraError, match=r"pip install 'buttress\[trackers\]'"):
            make()


def test_unknown_numbers_are_left_out():
    assert known({"a": math.inf, "b": math.nan, "c": 0.0}) == {"c": 0.0}


def test_warnings_of_sinks_have_a_logger_of_their_own():
    assert outboxes.logger is logging.getLogger("buttress.sinks")

"""What the watch shows, serves, writes and leaves behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import buttress as bt
from buttress.cli import main
from buttress.watch.gauges import row_of
from buttress.watch.holding import LOCK, PREFIX, Holding
from buttress.watch.screen import Screen, page
from buttress.watch.watcher import Look

EVIL = "\x1b[31m<b>[red]\u202e\x00"


def rows(steps, reward=lambda step: 0.0):
    return "".join(
        json.dumps(
            {
                "step": step,
                "group": f"{step}-{prompt}",
                "sample": sample,
                "prompt_id": f"p{prompt}{EVIL}",
                "completion": f"{step}/{prompt}/{sample}",
                "reward": reward(step),
            }
        )
        + "\n"
        for step in steps
        for prompt in range(3)
        for sample in range(4)
    )


@pytest.fixture
def dead(tmp_path):
    (tmp_path / "a.jsonl").write_text(rows(range(60)))
    return bt.diagnose(bt.read(tmp_path / "a.jsonl"))


def shown(*looks, terminal):
    said = io.StringIO()
    console = Console(file=said, force_terminal=terminal, width=100, height=80, color_system=None)
    with Screen(f"run{EVIL}", console) as screen:
        for look in looks:
            screen.show(look)
    return said.getvalue()


def test_lines_say_what_comes_and_what_is_over(dead, tmp_path):
    (tmp_path / "b.jsonl").write_text(rows(range(60), reward=lambda step: step % 2))
    better = bt.diagnose(bt.Groups.from_nested([[0, 1, 0, 1]] * 90, step=[0, 1, 2] * 30))
    said = shown(
        Look(dead, True, 0.0), Look(dead, True, 0.0), Look(dead, False, 3.0),
        Look(better, True, 0.0), terminal=False,
    )  # fmt: skip
    assert said.count("error[BT101] advantage-collapse") == 1
    assert said.count("over: advantage-collapse") == 1
    assert said.count("step 59  ACR 1.00") == 2


def test_the_live_view_shows_course_findings_and_prompts_harmlessly(dead):
    console = Console(file=io.StringIO(), width=100, record=True)
    for part in page(dead):
        console.print(part)
    said = console.export_text()
    for word in ("ACR", "all wrong", "advantage-collapse", "do: ", "worst prompts", "never solved"):
        assert word in said
    live = shown(Look(dead, True, 0.0), Look(dead, False, 7.0), terminal=True)
    assert "quiet for 7 s" in live
    for text in (said, live):
        assert "\x1b[31m<b>" not in text
        assert "\u202e" not in text
        assert "\x00" not in text


def test_an_empty_run_is_shown(tmp_path):
    assert "nothing to read yet" in shown(Look(None, False, 1.0), terminal=True)
    few = bt.diagnose(bt.Groups.from_nested([[1.0]]))
    assert "not known" in shown(Look(few, True, 0.0), terminal=True)


def test_gauges_have_the_numbers_and_the_names_of_the_monitor(dead):
    row = row_of(dead)
    groups = dead.case.groups
    monitor = bt.Monitor(policies=[])
    for step in range(60):
        monitor.update(groups.select(groups.step == step), step=step)
    known = monitor.metrics()
    for name in ("acr", "acr_run", "all_wrong", "reward_mean", "effective_batch"):
        assert row.metrics[f"buttress/{name}"] == pytest.approx(known[f"buttress/{name}"]), name
    assert row.step == 59
    assert row.metrics["buttress/findings/error"] >= 1
    assert row.metrics["buttress/rollouts"] == groups.n_samples


def test_gauges_do_not_make_zeros_of_what_is_unknown():
    row = row_of(bt.diagnose(bt.Groups.from_nested([[1.0], [0.0]])))
    assert row.metrics["buttress/acr"] != row.metrics["buttress/acr"]
    assert row.metrics["buttress/acr_run"] != row.metrics["buttress/acr_run"]


def test_a_killed_watcher_leaves_nothing_for_good(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = Holding(str(tmp_path / "run"))
    killed = tmp_path / f"{PREFIX}killed"
    killed.mkdir()
    (killed / LOCK).touch()
    mine = Holding(str(tmp_path / "run"))
    assert not killed.exists()
    assert other.folder.exists()  # of a watcher that lives
    mine.close()
    other.close()
    assert not list(tmp_path.iterdir())


def test_a_report_and_a_stop_file_inside_the_run(tmp_path, capsys):
    job = tmp_path / "job"
    job.mkdir()
    (job / "a.jsonl").write_text(rows(range(60)))
    with pytest.raises(SystemExit) as done:
        main(
            ["watch", str(job), "--until-idle", "0.3", "--interval", "0.05", "--hold", "1",
             "--html", str(job / "report.html"), "--stop-file", str(job / "STOP"),
             "--fail-on", "never"]
        )  # fmt: skip
    assert done.value.code == 0
    out, err = capsys.readouterr()
    assert not err
    assert "advantage-collapse" in out
    reasons = json.loads((job / "STOP").read_text())["stop"]
    assert reasons[0]["severity"] == "error"
    assert reasons[0]["evidence"]
    assert "<html" in (job / "report.html").read_text()


def test_several_runs_below_the_path_are_said(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_text(rows(range(3)))
    with pytest.raises(SystemExit):
        main(["watch", str(tmp_path), "--until-idle", "0.1", "--interval", "0.05"])
    assert "2 runs (one, two)" in capsys.readouterr().err


def test_a_request_to_terminate_ends_with_the_report(tmp_path):
    (tmp_path / "a.jsonl").write_text(rows(range(3)))
    arguments = [sys.executable, "-m", "buttress", "watch", str(tmp_path), "--json"]
    own = tmp_path / "tmp"
    own.mkdir()
    arguments += ["--interval", "0.05", "--fail-on", "never", "--html", str(tmp_path / "r.html")]
    watching = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(own)},
    )
    deadline = time.monotonic() + 60
    while not Path(tmp_path / "r.html").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    watching.send_signal(signal.SIGTERM)
    out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert json.loads(out)["source"]["rollouts"] == 36
    assert not list(own.iterdir())

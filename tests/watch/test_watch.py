"""Following a job: whatever happens to its files, the end is what `diagnose` says of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.cli import main
from buttress.watch import KeptFiles, Watcher
from buttress.watch.screen import one_line
from buttress.watch.watcher import under_their_names, write_stop


def line(step, prompt, sample, reward):
    row = {"step": step, "group": f"{step}-{prompt}", "sample": sample, "reward": reward}
    return json.dumps({**row, "prompt_id": f"p{prompt}"}) + "\n"


def run_of(steps, *, reward=lambda step, sample: float(sample == 0)):
    return [
        line(step, prompt, sample, reward(step, sample))
        for step in steps
        for prompt in range(3)
        for sample in range(4)
    ]


def diagnose(files):
    return bt.diagnose(under_their_names(bt.read(list(files)), files))


def counted(diagnosis):
    found = diagnosis.as_dict()
    return found["source"]["rollouts"], found["measures"], found["steps"]


def watcher(path, tmp_path, **options):
    return Watcher(str(path), diagnose, folder=tmp_path / "held", **options)


def test_waits_for_a_job_that_has_not_begun(tmp_path):
    watching = watcher(tmp_path / "run", tmp_path)
    assert watching.look().diagnosis is None
    (tmp_path / "run").mkdir()
    assert watching.look().diagnosis is None
    (tmp_path / "run" / "a.jsonl").write_text('{"step": 1, "gro')
    assert watching.look().diagnosis is None  # half a line
    (tmp_path / "run" / "a.jsonl").write_text("".join(run_of(range(2))))
    look = watching.look()
    assert look.changed
    assert counted(look.diagnosis)[0] == 24
    assert not watching.look().changed


pieces = st.lists(st.integers(1, 400), min_size=1, max_size=12)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(sizes=pieces, moves=st.lists(st.sampled_from("wwwrdpl"), min_size=4, max_size=10))
def test_ends_as_diagnose_does_whatever_happens_on_the_way(sizes, moves, tmp_path_factory):
    """Random writes that tear lines (w), rotation (r), deletion (d), rewriting (p), looks (l)."""
    place = tmp_path_factory.mktemp("watch")
    job, whole = place / "job", place / "whole"
    job.mkdir()
    whole.mkdir()
    text = "".join(run_of(range(6))).encode()
    watching, at, piece, files = watcher(job, place), 0, 0, 0
    (job / "log.jsonl").touch()
    for move in moves:
        current = job / "log.jsonl"
        if move == "w":
            size = sizes[piece % len(sizes)]
            piece += 1
            with current.open("ab") as file:
                file.write(text[at : at + size])
            at += size
        elif move == "p":
            shutil.copyfile(current, job / ".new")
            (job / ".new").replace(current)  # as a trainer that rewrites its file
        elif move in "rd":
            end = text.find(b"\n", at - 1) + 1 if at else 0
            with current.open("ab") as file:
                file.write(text[at:end])
            at = max(at, end)
            watching.look()
            files += 1
            if move == "r":
                current.rename(job / f"log.jsonl.{files}")
            else:
                current.unlink()
            current.touch()
        watching.look()
    with (job / "log.jsonl").open("ab") as file:
        file.write(text[at:])
    (whole / "log.jsonl").write_bytes(text)
    assert counted(watching.look().diagnosis) == counted(bt.diagnose(bt.read(whole)))


def test_a_restarted_run_with_repeated_steps_counts_as_diagnose_counts_it(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    watching = watcher(job, tmp_path)
    (job / "a.jsonl").write_text("".join(run_of(range(4))))
    watching.look()
    with (job / "a.jsonl").open("a") as file:
        file.write("".join(run_of(range(2, 6))))
    assert counted(watching.look().diagnosis) == counted(bt.diagnose(bt.read(job)))


def test_trl_files_that_appear_one_by_one(tmp_path):
    source = "tests/logs/data/verl_v1"
    job = tmp_path / "job"
    job.mkdir()
    watching = watcher(job, tmp_path)
    for name in sorted(path.name for path in Path(source).iterdir()):
        shutil.copy(f"{source}/{name}", job / name)
        look = watching.look()
    whole = bt.diagnose(bt.read(source))
    assert counted(look.diagnosis) == counted(whole)
    assert str(job) in look.diagnosis.as_dict()["source"]["paths"][0]


def test_two_watchers_do_not_disturb_each_other(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    (job / "a.jsonl").write_text("".join(run_of(range(3))))
    one = Watcher(str(job), diagnose, folder=tmp_path / "one")
    two = Watcher(str(job), diagnose, folder=tmp_path / "two")
    one.look()
    (job / "a.jsonl").unlink()
    assert two.look().diagnosis is None
    assert counted(one.look().diagnosis)[0] == 36


def test_a_file_cut_in_place_is_said(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(3))))
    kept = KeptFiles(str(tmp_path / "a.jsonl"), tmp_path / "held")
    assert kept.refresh()
    (tmp_path / "a.jsonl").open("w").close()
    assert kept.refresh()
    assert kept.cut == [str(tmp_path / "a.jsonl")]


def dead(step, sample):
    return 0.0


def test_an_error_must_hold_before_it_stops_the_job(tmp_path):
    job = tmp_path / "a.jsonl"
    watching = watcher(job, tmp_path, hold=3)
    stops = []
    for step in range(5):
        with job.open("a") as file:
            file.write("".join(run_of(range(20 * step, 20 * step + 20), reward=dead)))
        look = watching.look()
        stops.append(bool(look.stop))
        if look.stop:
            write_stop(tmp_path / "stop", look)
    assert stops == [False, False, True, True, True]
    reasons = json.loads((tmp_path / "stop").read_text())["stop"]
    assert "advantage-collapse" in {reason["rule"] for reason in reasons}


def test_looks_that_change_nothing_do_not_bring_a_stop_nearer(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(60), reward=dead)))
    watching = watcher(tmp_path / "a.jsonl", tmp_path)
    assert not any(watching.look().stop for _ in range(6))


def test_idleness_is_told_by_a_clock_that_does_not_jump(tmp_path):
    now = [100.0]
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(2))))
    os.utime(tmp_path / "a.jsonl", (4e9, 4e9))
    watching = watcher(tmp_path / "a.jsonl", tmp_path, clock=lambda: now[0])
    assert watching.look().idle == 0
    now[0] += 7
    assert watching.look().idle == 7
    os.utime(tmp_path / "a.jsonl", (1, 1))
    assert watching.look().changed
    watching.cost = 3.0
    assert watching.pause(1.0) == pytest.approx(12.0)


def follow(*arguments, capsys=None):
    with pytest.raises(SystemExit) as done:
        main(["watch", *map(str, arguments), "--until-idle", "0.2", "--interval", "0.1"])
    return done.value.code


def test_the_command_ends_as_diagnose_does(tmp_path, capsys):
    job = tmp_path / "a.jsonl"
    job.write_text("".join(run_of(range(60), reward=dead)))
    assert follow(job, "--json", "--html", tmp_path / "r.html") == 1
    printed = json.loads(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["diagnose", str(job), "--json"])
    assert json.loads(capsys.readouterr().out) == printed
    assert "<html" in (tmp_path / "r.html").read_text()
    assert follow(job, "--fail-on", "never") == 0
    assert "ACR 1.00" in capsys.readouterr().out


def test_nothing_to_watch_and_bad_numbers(tmp_path, capsys):
    assert follow(tmp_path / "none") == 2
    assert "nothing could be read" in capsys.readouterr().err
    for option in ("--interval", "--hold", "--until-idle"):
        with pytest.raises(SystemExit) as done:
            main(["watch", str(tmp_path), option, "0"])
        assert done.value.code == 2


def test_a_report_that_cannot_be_written_is_said_once(tmp_path, capsys):
    job = tmp_path / "a.jsonl"
    job.write_text("".join(run_of(range(3))))
    assert follow(job, "--html", tmp_path / "none" / "r.html", "--fail-on", "never") == 0
    assert capsys.readouterr().err.count("could not be written") == 1


def test_hostile_text_is_shown_harmlessly(tmp_path, capsys):
    job = tmp_path / "a\x1b[31m.jsonl"
    job.write_text("".join(run_of(range(3))))
    follow(job, "--fail-on", "never")
    assert "\x1b[31m" not in capsys.readouterr().out


def command(job, *more):
    arguments = [sys.executable, "-m", "buttress", "watch", str(job), "--json", *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("trial", range(int(os.environ.get("BUTTRESS_KILLS", "3"))))
def test_killed_and_started_again_it_counts_the_same(trial, tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    rows = run_of(range(30))
    (job / "a.jsonl").write_text("".join(rows[:100]))
    first = command(job, "--interval", "0.02")
    time.sleep(0.3 + 0.13 * (trial % 17))
    with (job / "a.jsonl").open("a") as file:
        file.write("".join(rows[100:]))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    again = command(job, "--interval", "0.02", "--until-idle", "0.1", "--fail-on", "never")
    out, _ = again.communicate(timeout=120)
    found, straight = json.loads(out), bt.diagnose(bt.read(job)).as_dict()
    assert found["source"]["rollouts"] == len(rows)
    assert all(found[part] == straight[part] for part in ("measures", "steps", "problems"))


def test_prometheus_serves_the_numbers(tmp_path):
    pytest.importorskip("prometheus_client")
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(3), reward=dead)))
    watching = command(tmp_path / "a.jsonl", "--prometheus", "0", "--interval", "0.05")
    address = watching.stderr.readline().decode().split()[-1]
    page, deadline = "", time.monotonic() + 60
    while "buttress_acr 1.0" not in page and time.monotonic() < deadline:
        time.sleep(0.1)
        page = urllib.request.urlopen(address, timeout=5).read().decode()
    watching.kill()
    watching.communicate()
    assert address.startswith("http://127.0.0.1:")
    assert "buttress_acr 1.0" in page


def test_one_line_says_the_state():
    run = bt.diagnose(bt.read("tests/logs/data/verl_v1"))
    assert "ACR" in one_line(run)

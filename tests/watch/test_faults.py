"""The watch on a full or read-only disc, and two of it on one run."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import buttress as bt
from buttress.watch import Watcher
from buttress.watch.holding import PREFIX
from tests.watch.test_watch import counted, dead, diagnose, run_of

FULL = Path("/dev/full")


def no(code):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES])
@pytest.mark.parametrize("broken", ["all", "copies"])
def test_a_disc_on_which_nothing_can_be_kept(tmp_path, monkeypatch, code, broken):
    """The job is read in its place; only what it deletes is lost."""
    job = tmp_path / "job"
    job.mkdir()
    (job / "a.jsonl").write_text("".join(run_of(range(3))))
    monkeypatch.setattr("tempfile.mkdtemp", no(code) if broken == "all" else _made(tmp_path))
    for module, name in ((os, "link"), (shutil, "copyfile")):
        monkeypatch.setattr(module, name, no(code))
    watching = Watcher(str(job), diagnose)
    assert bool(watching.unheld) == (broken == "all")
    watching.look()
    (job / "b.jsonl").write_text("".join(run_of(range(3, 5))))
    look = watching.look()
    assert counted(look.diagnosis) == counted(bt.diagnose(bt.read(job)))
    watching.close()
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def _made(folder):
    def make(prefix, dir):
        place = folder / f"{prefix}held"
        place.mkdir()
        return str(place)

    return make


def test_no_folder_for_temporary_files_at_all(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(3))))
    monkeypatch.setattr("tempfile.gettempdir", no(errno.ENOENT))
    monkeypatch.setattr("tempfile.mkdtemp", no(errno.EROFS))
    watching = Watcher(str(tmp_path / "a.jsonl"), diagnose)
    assert "Read-only" in watching.unheld
    assert counted(watching.look().diagnosis)[0] == 36


def test_a_folder_that_may_no_longer_be_entered(tmp_path, monkeypatch):
    """As on a network disc that went away; it is read again once it is back."""
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(3))))
    watching = Watcher(str(tmp_path), diagnose, folder=tmp_path.parent / "held")
    assert counted(watching.look().diagnosis)[0] == 36
    stat = Path.stat

    def stale(path, **options):
        if path.parent == tmp_path:
            no(errno.ESTALE)()
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", stale)
        assert counted(watching.look().diagnosis)[0] == 36
    assert counted(watching.look().diagnosis)[0] == 36


def command(job, *more, idle=0.2, **options):
    arguments = [sys.executable, "-m", "buttress", "watch", str(job), "--until-idle", str(idle)]
    arguments += ["--interval", "0.05", "--fail-on", "never", *map(str, more)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(arguments, **options)


def test_a_disc_that_is_full_for_all_files(tmp_path):
    """No report and no stop file can be written; the watch says so and goes on to its end."""
    job, report, stop = tmp_path / "job.jsonl", tmp_path / "r.html", tmp_path / "stop"
    job.write_text("".join(run_of(range(60), reward=dead)))
    more = "--json", "--html", report, "--stop-file", stop, "--hold", 1
    watching = command(
        job, *more, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    )
    out, err = watching.communicate(timeout=120)
    assert json.loads(out)["source"]["rollouts"] == 720
    assert err.decode().count("could not be written") == 2
    assert b"Traceback" not in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job.jsonl"]


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_what_it_says_goes_to_a_full_disc(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(run_of(range(60), reward=dead)))
    report = tmp_path / "r.html"
    with FULL.open("wb") as full:
        watching = command(tmp_path, "--html", report, stdout=full, stderr=subprocess.PIPE)
        _, err = watching.communicate(timeout=120)
    assert b"Traceback" not in err
    assert "<html" in report.read_text()


def test_two_watchers_on_one_run(tmp_path):
    """They share report and stop file, count alike and leave nothing behind."""
    job, report, stop = tmp_path / "job", tmp_path / "r.html", tmp_path / "stop"
    own = tmp_path / "tmp"
    job.mkdir()
    own.mkdir()
    rows = run_of(range(60), reward=dead)
    (job / "a.jsonl").write_text("".join(rows[:300]))
    more = "--json", "--html", report, "--stop-file", stop, "--hold", 1
    both = [command(job, *more, idle=2, env=os.environ | {"TMPDIR": str(own)}) for _ in range(2)]
    deadline = time.monotonic() + 60
    while len(list(own.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    with (job / "a.jsonl").open("a") as file:
        file.write("".join(rows[300:]))
    said = [watching.communicate(timeout=120)[0] for watching in both]
    assert said[0] == said[1]
    assert json.loads(said[0])["source"]["rollouts"] == 720
    assert "<html" in report.read_text()
    assert json.loads(stop.read_text())["stop"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job", "r.html", "stop", "tmp"]
    assert not list(own.iterdir())

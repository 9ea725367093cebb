"""A loop of one's own that is killed at random moments, again and again."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import numpy as np
import pytest

import buttress as bt
from buttress.hooks.sinks import JsonLines
from tests.hooks.monitored_runs import random_batch, same

STEPS, EVERY = 60, 7
TRIALS = int(os.environ.get("BUTTRESS_KILLS", "25"))


def batch(step):
    return random_batch(np.random.default_rng(step))


def loop(folder, pause):
    """Go on from the last checkpoint, as a training script does."""
    path, monitor = folder / "checkpoint.json", bt.Monitor(sinks=[JsonLines(folder / "run.jsonl")])
    start = 1
    if path.exists():
        saved = json.loads(path.read_text())
        monitor.load_state_dict(saved["monitor"])
        start = saved["step"] + 1
    for step in range(start, STEPS + 1):
        monitor.update(batch(step), step=step)
        time.sleep(pause)
        if step % EVERY == 0 or step == STEPS:
            half = folder / "checkpoint.half"
            half.write_text(json.dumps({"step": step, "monitor": monitor.state_dict()}))
            half.replace(path)
    monitor.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_counts_after_many_kills_are_those_of_an_uninterrupted_run(tmp_path):
    straight = bt.Monitor(policies=[])
    for step in range(1, STEPS + 1):
        straight.update(batch(step), step=step)
    draw, killed = random.Random(10), 0
    for trial in range(TRIALS):
        folder = tmp_path / str(trial)
        folder.mkdir()
        while not finished(folder):
            killed += killed_loop(folder, draw.uniform(0.005, 0.2))
        state = json.loads((folder / "checkpoint.json").read_text())["monitor"]
        found = bt.Monitor(policies=[])
        found.load_state_dict(state)
        same(found.metrics(), straight.metrics())
        check_lines(folder / "run.jsonl", straight)
    assert killed >= TRIALS


def finished(folder):
    path = folder / "checkpoint.json"
    return path.exists() and json.loads(path.read_text())["step"] == STEPS


def killed_loop(folder, seconds):
    child = os.fork()
    if child == 0:
        try:
            loop(folder, 0.001)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def check_lines(path, straight):
    """Every line is whole but those that a kill cut; the last one of a step stands."""
    whole = {}
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        whole[row["step"]] = row["metrics"]["buttress/acr_run"]
    if STEPS in whole:
        assert whole[STEPS] == pytest.approx(straight.metrics()["buttress/acr_run"])

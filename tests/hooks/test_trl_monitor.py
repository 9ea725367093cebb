"""A `Monitor` inside TRL: logs, policies, checkpoints, a run that is killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.errors import UsageError
from buttress.hooks import Sampling, Switch
from buttress.hooks.trl import ButtressGRPOMixin, attach
from tests.helpers import require
from tests.hooks import killed_run, tiny
from tests.hooks.monitored_runs import same

trl = require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

TABLE = tiny.table(3, 6, 8)
DEAD = tiny.Script([[0.0] * 8])


def run(folder, monitor, rewards=None, remedy="avspo", resume=None, **settings):
    rewards = rewards or tiny.Script(TABLE)
    trainer = attach(tiny.trainer(folder, rewards, **settings), remedy, monitor)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def test_every_generation_is_counted_and_logged(tmp_path):
    monitor = bt.Monitor()
    trainer = run(tmp_path, monitor, max_steps=6)
    found = monitor.metrics()
    groups = [bt.Groups.from_nested([row[:4], row[4:]]) for row in TABLE]
    rates = [bt.collapse_rate(one) for one in groups]
    assert found["buttress/acr_run"] == pytest.approx(np.mean(rates))
    assert found["buttress/reward_mean"] == pytest.approx(np.mean(TABLE[-1]))
    assert found["buttress/acr_after"] == trainer.state.log_history[5]["buttress/acr_after"]
    assert found["buttress/acr/reward/script"] == rates[-1]
    assert monitor.total_steps == 6
    assert monitor.prompts().tries.sum() == 48
    assert tiny.logged(trainer, "buttress/acr_window") == pytest.approx(
        [np.mean(rates[: step + 1]) for step in range(6)]
    )
    assert "buttress/threshold" in found
    assert not any(
        value is not None and value != value
        for line in trainer.state.log_history
        for value in line.values()
    )


def test_the_class_form_takes_a_monitor_too(tmp_path):
    class Mine(ButtressGRPOMixin, trl.GRPOTrainer):
        pass

    monitor = bt.Monitor()
    options = {"remedy": "grpo", "monitor": monitor}
    tiny.trainer(tmp_path, DEAD, kind=Mine, kind_options=options).train()
    assert monitor.metrics()["buttress/acr_run"] == 1.0


def test_a_run_is_stopped_with_a_checkpoint(tmp_path):
    monitor = bt.Monitor(policies=[bt.Policy("acr > 0.9", "stop", for_steps=3)], warmup=0)
    trainer = run(tmp_path, monitor, DEAD, max_steps=20)
    assert trainer.state.global_step == 3
    checkpoint = tmp_path / "checkpoint-3"
    assert (checkpoint / "trainer_state.json").exists()
    state = json.loads((checkpoint / "buttress_state.json").read_text())
    assert [event["action"] for event in state["monitor"]["acting"]["events"]] == ["stop"]
    # whoever resumes has decided to go on
    again = bt.Monitor(policies=[bt.Policy("acr > 0.9", "stop", for_steps=3)], warmup=0)
    resumed = run(tmp_path, again, DEAD, max_steps=6, resume=str(checkpoint))
    assert resumed.state.global_step == 6
    assert len(again.events) == 1


def test_a_remedy_is_switched_on_and_stays_on_after_a_resume(tmp_path):
    def monitor():
        switch = Switch("avspo", {"threshold": "always"})
        return bt.Monitor(policies=[bt.Policy("acr > 0.9", switch, for_steps=2)], warmup=0)

    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 4}
    trainer = attach(tiny.trainer(tmp_path, DEAD, **settings), "grpo", monitor())
    outputs = tiny.watch(trainer)
    trainer.train()
    moved = [bool(output["advantages"].any()) for output in outputs]
    assert moved == [False, False, True, True, True, True]
    resumed = attach(tiny.trainer(tmp_path, DEAD, **settings), "grpo", monitor())
    outputs = tiny.watch(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert [bool(output["advantages"].any()) for output in outputs] == [True, True]
    assert type(resumed._buttress.estimator).__name__ == "Avspo"
    ended = trainer._buttress.estimator.state_dict()
    assert resumed._buttress.estimator.state_dict() == ended


def test_sampling_changes_with_the_next_generation(tmp_path):
    policy = bt.Policy("acr > 0.9", Sampling(temperature=1.5, top_p=0.9), for_steps=2)
    trainer = tiny.trainer(tmp_path, DEAD, max_steps=4)
    attach(trainer, "grpo", bt.Monitor(policies=[policy], warmup=0))
    used = []
    generate = trainer._generate

    def keep(*args, **kwargs):
        config = trainer.generation_config
        used.append((trainer.temperature, config.temperature, config.top_p))
        return generate(*args, **kwargs)

    trainer._generate = keep
    trainer.train()
    assert used == [(1.0, 1.0, 1.0)] * 2 + [(1.5, 1.5, 0.9)] * 2


def test_policies_that_this_trainer_cannot_follow_are_refused(tmp_path):
    switch = bt.Monitor(policies=[bt.Policy("acr > 0.9", Switch("global_norm"))])
    trainer = tiny.trainer(tmp_path, DEAD, scale_rewards="none")
    with pytest.raises(UsageError, match="asks for advantages that are not scaled"):
        attach(trainer, "rloo", switch)
    assert type(trainer) is trl.GRPOTrainer
    plain = bt.Monitor(policies=[bt.Policy("acr > 0.9", Switch("grpo"))])
    with pytest.raises(UsageError, match="internal reward"):
        attach(tiny.trainer(tmp_path, DEAD), "rent", plain)
    sampling = bt.Monitor(policies=[bt.Policy("acr > 0.9", Sampling(temperature=2))])
    trainer = tiny.trainer(tmp_path, DEAD)
    del trainer.generation_config
    with pytest.raises(UsageError, match="does not show what it samples with"):
        attach(trainer, "grpo", sampling)


@pytest.mark.parametrize("method", ["update", "metrics", "requests", "state_dict"])
def test_a_monitor_that_fails_is_one_warning(tmp_path, monkeypatch, caplog, method):
    def fail(*args, **kwargs):
        raise RuntimeError("broken monitor")

    monkeypatch.setattr(bt.Monitor, method, fail)
    monitor = bt.Monitor(policies=[bt.Policy("acr > 0.9", "stop", for_steps=99)])
    trainer = run(tmp_path, monitor, max_steps=3, save_strategy="steps", save_steps=2)
    assert trainer.state.global_step == 3
    assert caplog.text.count("broken monitor") == 1


def test_a_resumed_monitor_has_the_counts_of_the_uninterrupted_one(tmp_path):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3}
    straight, resumed = bt.Monitor(), bt.Monitor()
    run(tmp_path, straight, **settings)
    run(tmp_path, resumed, resume=str(tmp_path / "checkpoint-3"), **settings)
    same(resumed.metrics(), straight.metrics())
    assert resumed.last_step == 6


def test_a_checkpoint_without_a_monitor_starts_it_afresh_with_one_warning(tmp_path, caplog):
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    run(tmp_path, None, **settings)
    monitor = bt.Monitor()
    with caplog.at_level(logging.WARNING, "buttress.hooks"):
        run(tmp_path, monitor, resume=str(tmp_path / "checkpoint-2"), **settings)
    lines = [one.getMessage() for one in caplog.records if one.name == "buttress.hooks"]
    assert len(lines) == 1
    assert "the monitor starts afresh" in lines[0]
    assert len(monitor._counting.ledger.steps) == 2


def test_a_killed_run_ends_with_the_counts_of_an_uninterrupted_one(tmp_path):
    """kill -9 at a moment of its own choosing, several times, then to the end."""
    straight = bt.Monitor()
    killed_run.train(tmp_path / "straight", straight)
    folder = tmp_path / "killed"
    for step in (3, 4, 7):
        assert _killed(folder, step) == -signal.SIGKILL
    assert _killed(folder, None) == 0
    _same_counts(_left(folder), straight)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_it_ends_with_the_same_counts(tmp_path):
    """In the middle of a step, of a checkpoint, of the loading of one."""
    trials = int(os.environ.get("BUTTRESS_KILLS", "3"))
    assert _killed(tmp_path, "random", str(trials)) == 0
    for trial in range(trials):
        _same_counts(_left(tmp_path / str(trial)), _left(tmp_path / "straight"))
    assert int((tmp_path / "kills").read_text()) >= trials / 2


def _left(folder):
    """Return the monitor as a run left it."""
    found = bt.Monitor(policies=[])
    found.load_state_dict(json.loads((folder / "state.json").read_text()))
    return found


def _same_counts(found, straight):
    found.total_steps = straight.total_steps
    same(found.metrics(), straight.metrics())
    first, second = found.prompts(), straight.prompts()
    assert sorted(zip(*first, strict=True)) == sorted(zip(*second, strict=True))


def _killed(folder, *how):
    command = [sys.executable, "-m", "tests.hooks.killed_run", str(folder), *map(str, how)]
    return subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        timeout=3600,
        check=False,
    ).returncode

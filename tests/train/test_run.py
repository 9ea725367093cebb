"""Trainings from settings to a model: what they leave, that a resumed one is the same, faults."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest

import buttress as bt
from buttress.errors import ButtressError, UsageError
from buttress.train import rollout_log
from tests.hooks import tiny
from tests.train import tiny_run
from tests.train.tiny_run import train

pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


@pytest.fixture(scope="module")
def straight(home, tmp_path_factory):
    """An uninterrupted run, across the end of a pass over the problems."""
    out = tmp_path_factory.mktemp("straight") / "out"
    settings = {"remedy": {"name": "avspo", "threshold_rate": 0.5}, "steps": 10, "prompts": 4}
    train(*tiny_run.settings(home, out, **settings))
    return out, settings


def test_every_rollout_is_logged_once_and_reads_back(straight):
    out, _ = straight
    rows = tiny_run.rollouts(out)
    assert len(rows) == 10 * 16
    assert [row["step"] for row in rows] == [step for step in range(1, 11) for _ in range(16)]
    assert len({row["group"] for row in rows}) == 40
    assert {row["prompt"] for row in rows} == set(tiny.PROMPTS)
    run = bt.read(out / "rollouts.jsonl")
    assert run.problems == ()
    assert set(run.groups.sizes) == {4}
    expected = bt.estimator("avspo", threshold_rate=0.5)
    for step in range(1, 11):
        part = run.groups.select(np.flatnonzero(run.groups.step == step))
        np.testing.assert_allclose(part.columns["advantage"], expected(part), atol=1e-4)


def test_nothing_else_lies_in_the_directory(straight):
    out, _ = straight
    names = {path.name for path in out.iterdir() if not path.name.startswith("checkpoint-")}
    assert names == {".buttress-train.json", "model", "rollouts.jsonl", "trainer_state.json"}


def test_metrics_of_the_run_are_found_beside_the_rollouts(straight):
    out, _ = straight
    run = bt.read(out)
    assert run.source.format == "generic"
    assert run.scalar("buttress/acr").step.tolist() == list(range(1, 11))
    diagnosis = bt.diagnose(run)
    assert diagnosis.measures["acr"] == pytest.approx(run.scalar("buttress/acr").value.mean())


def test_each_pass_asks_every_problem_once_in_another_order(straight):
    out, _ = straight
    asked = [row["prompt"] for row in tiny_run.rollouts(out) if row["sample"] == 0]
    first, second = asked[:16], asked[16:32]
    assert sorted(first) == sorted(second) == sorted(tiny.PROMPTS)
    assert first != second


@pytest.mark.parametrize("fail_at", [2, 4, 7])
def test_an_interrupted_and_resumed_run_is_the_uninterrupted_one(
    straight, home, tmp_path, monkeypatch, fail_at
):
    """Bit by bit: weights, rollouts, the remedy's state; before a checkpoint, after, next pass."""
    first, settings = straight
    out = tmp_path / "out"
    reward = {"use": f"{home / 'rewards.py'}:failing", "name": "digits"}
    given = tiny_run.settings(home, out, **settings, reward=[reward])
    monkeypatch.setenv("FAIL_AT", str(fail_at))
    with pytest.raises(ButtressError, match=f"own will .*step {fail_at}.*--resume"):
        train(*given)
    assert not (out / "model").exists()
    monkeypatch.delenv("FAIL_AT")
    done = train(*given, resume=True)
    assert done.resumed_from == (fail_at - 1) // 2 * 2
    assert tiny_run.weights(out) == tiny_run.weights(first)
    assert tiny_run.rollouts(out) == tiny_run.rollouts(first)
    states = [
        json.loads((one / "checkpoint-10/buttress_state.json").read_text()) for one in (first, out)
    ]
    assert states[0] == states[1]


def test_without_the_state_of_the_prompts_a_resumed_run_would_differ(
    straight, home, tmp_path, monkeypatch
):
    """So that the equality above is not vacuous."""
    first, settings = straight
    out = tmp_path / "out"
    given = tiny_run.settings(home, out, **settings, reward=f"{home / 'rewards.py'}:failing")
    monkeypatch.setenv("FAIL_AT", "3")
    with pytest.raises(ButtressError):
        train(*given)
    monkeypatch.delenv("FAIL_AT")
    state = out / "checkpoint-2" / ".buttress-state.json"
    saved = json.loads(state.read_text())
    saved["prompts"]["taken"] = 0
    state.write_text(json.dumps(saved))
    train(*given, resume=True)
    assert tiny_run.weights(out) != tiny_run.weights(first)


def test_a_failed_reward_keeps_what_it_was_asked(home, tmp_path, monkeypatch):
    given = tiny_run.settings(home, tmp_path / "out", reward=f"{home / 'rewards.py'}:failing")
    monkeypatch.setenv("FAIL_AT", "3")
    with pytest.raises(ButtressError, match=r"rewards\.py:\d+"):
        train(*given)
    kept = tmp_path / "out" / "failed-reward-step3-rank0-failing.txt"
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(rows) == 8
    assert {"prompts", "completions", "answer"} <= rows[0].keys()
    assert len(tiny_run.rollouts(tmp_path / "out")) == 16


def test_a_loss_that_is_not_finite_stops_before_the_update(home, tmp_path):
    """The gradient overflows in the third step; the second checkpoint is good, and goes on."""
    out = tmp_path / "out"
    reward = f"{home / 'rewards.py'}:huge"
    given = tiny_run.settings(home, out, remedy="dr_grpo", reward=reward)
    with pytest.raises(ButtressError, match=r"step 3 is (nan|inf).*not touched.*checkpoint-2"):
        train(*given)
    assert sorted(one.name for one in out.glob("checkpoint-*")) == ["checkpoint-2"]
    assert len(tiny_run.rollouts(out)) == 24
    # another remedy takes such rewards
    given = tiny_run.settings(home, out, remedy="sign", reward=reward)
    with pytest.raises(UsageError, match=r"remedy\.name: 'dr_grpo' then, 'sign' now"):
        train(*given, resume=True)
    assert train(*given, resume=True, accept_changes=True).resumed_from == 2
    assert (out / "model").is_dir()


def test_a_full_disk_stops_the_run_and_leaves_whole_lines(home, tmp_path, monkeypatch):
    out = tmp_path / "out"
    given = tiny_run.settings(home, out)
    write, calls = rollout_log._append, []

    def full(path, data):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, data)

    monkeypatch.setattr(rollout_log, "_append", full)
    with pytest.raises(ButtressError, match=r"No space left on device.*step 4.*checkpoint-2"):
        train(*given)
    assert len(tiny_run.rollouts(out)) == 24
    assert train(*given, resume=True).resumed_from == 2
    assert len(tiny_run.rollouts(out)) == 32


def test_a_full_disk_in_a_checkpoint_leaves_the_last_one(home, tmp_path, monkeypatch):
    from transformers import Trainer

    out = tmp_path / "out"
    given = tiny_run.settings(home, out)
    save = Trainer._save_optimizer_and_scheduler

    def full(self, folder):
        if self.state.global_step == 4:
            raise OSError(errno.ENOSPC, "No space left on device", folder)
        save(self, folder)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_save_optimizer_and_scheduler", full)
        with pytest.raises(ButtressError, match=r"disk is full.*checkpoint-2; go on"):
            train(*given)
    assert (out / "checkpoint-4").exists()
    assert train(*given, resume=True).resumed_from == 2


def test_a_directory_is_not_taken_twice(straight, home):
    out, settings = straight
    given = tiny_run.settings(home, out, **settings)
    with pytest.raises(UsageError, match=r"holds a training .at step 10.: go on with --resume"):
        train(*given)
    before = tiny_run.weights(out)
    done = train(*given, resume=True)
    assert done.resumed_from == done.steps == 10
    assert tiny_run.weights(out) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"seed": 8}, "seed: 7 then, 8 now"),
        ({"trainer": {"learning_rate": 2e-3}}, r"trainer\.learning_rate: 0.001 then, 0.002 now"),
        ({"data": {"limit": 5}}, "data_digest: .* then"),
    ],
)
def test_a_checkpoint_of_another_config_is_refused(straight, home, more, said):
    out, settings = straight
    data = {"path": str(home / "data.jsonl")} | more.pop("data", {})
    given = tiny_run.settings(home, out, **settings | more, data=data)
    with pytest.raises(UsageError, match=said):
        train(*given, resume=True)

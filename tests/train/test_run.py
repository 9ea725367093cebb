"""Trainings from settings to a model: what they leave, that a resumed one is the same, faults."""

from __future__ import annotations

import errno
import json
import math

import numpy as np
import pytest

import buttress as bt
from buttress.errors import ButtressError, UsageError
from buttress.train import rollout_log
from tests.helpers import require
from tests.hooks import tiny
from tests.train import tiny_run

pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


def train(*settings, **options):
    require("trl")
    from buttress.train.run import train as run

    return run(*settings, **options)


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
    given = tiny_run.settings(home, out, **settings, reward=f"{home / 'rewards.py'}:failing")
    monkeypatch.setenv("FAIL_AT", str(fail_at))
    with pytest.raises(ButtressError, match=f"own will .*step {fail_at}.*--resume"):
        train(*given)
    assert not (out / "model").exists()
    monkeypatch.delenv("FAIL_AT")
    done = train(*given, resume=True)
    assert done.resumed_from == (fail_at - 1) // 2 * 2
    assert tiny_run.weights(out) == tiny_run.weights(first)
    renamed = (first / "rollouts.jsonl").read_text().replace("reward/digits", "reward/failing")
    assert (out / "rollouts.jsonl").read_text() == renamed
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


def test_loss_and_updates_of_one_generation(home, tmp_path):
    """Two updates for each generation: 4 steps are 2 generations, and the log holds both once."""
    out = tmp_path / "out"
    given = tiny_run.settings(
        home, out, updates=2, loss={"name": "dapo", "clip_high": 0.3}, remedy="posterior"
    )
    train(*given)
    rows = tiny_run.rollouts(out)
    assert len(rows) == 16
    assert sorted({row["step"] for row in rows}) == [1, 3]
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    assert all(line["buttress/loss_fallback"] == 0 for line in history if "entropy" in line)


def test_two_rewards_with_weights(home, tmp_path):
    out = tmp_path / "out"
    reward = [
        {"use": "exact", "weight": 2.0},
        {"use": f"{home / 'rewards.py'}:digits", "name": "style", "weight": 0.5},
    ]
    train(*tiny_run.settings(home, out, reward=reward))
    for row in tiny_run.rollouts(out):
        assert row["correct"] == row["reward/exact"]
        assert row["reward"] == pytest.approx(2 * row["reward/exact"] + 0.5 * row["reward/style"])


def test_only_the_named_parameters_move(home, tmp_path):
    safetensors = require("safetensors.torch")
    out = tmp_path / "out"
    train(*tiny_run.settings(home, out, train_only=[r"layers\.1\."]))
    before = safetensors.load_file(home / "model" / "model.safetensors")
    after = safetensors.load_file(out / "model" / "model.safetensors")
    moved = {name for name in after if not before[name].equal(after[name])}
    assert moved
    assert all("layers.1." in name for name in moved)
    with pytest.raises(UsageError, match="leaves nothing to train"):
        train(*tiny_run.settings(home, tmp_path / "none", train_only=["layres"]))


def test_lora_trains_and_resumes(home, tmp_path, monkeypatch):
    require("peft")
    lora = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
    outs = tmp_path / "straight", tmp_path / "resumed"
    train(*tiny_run.settings(home, outs[0], lora=lora))
    given = tiny_run.settings(home, outs[1], lora=lora, reward=f"{home / 'rewards.py'}:failing")
    monkeypatch.setenv("FAIL_AT", "4")
    with pytest.raises(ButtressError):
        train(*given)
    monkeypatch.delenv("FAIL_AT")
    train(*given, resume=True)
    adapters = [(out / "model" / "adapter_model.safetensors").read_bytes() for out in outs]
    assert adapters[0] == adapters[1]


def test_a_generation_of_fewer_problems_than_prompts(home, tmp_path):
    """Passes follow each other within one generation."""
    out = tmp_path / "out"
    data = {"path": str(home / "data.jsonl"), "limit": 3}
    train(*tiny_run.settings(home, out, data=data, prompts=4, steps=3))
    asked = [row["prompt"] for row in tiny_run.rollouts(out) if row["sample"] == 0]
    assert len(asked) == 12
    assert all(len(set(asked[at : at + 3])) == 3 for at in range(0, 12, 3))


def test_rewards_of_none_are_unscorable(home, tmp_path):
    (home / "nothing.py").write_text(
        "def none(completions, **_):\n    return [None] * len(completions)\n"
    )
    out = tmp_path / "out"
    train(*tiny_run.settings(home, out, reward=f"{home / 'nothing.py'}:none", steps=1))
    assert {row["reward"] for row in tiny_run.rollouts(out)} == {None}
    assert math.isnan(bt.collapse_rate(bt.read(out / "rollouts.jsonl").groups))


def mixed(rows):
    """Names of the groups with differing rewards, in their order."""
    seen = {}
    for row in rows:
        seen.setdefault(row["group"], set()).add(row["reward"])
    return [group for group, rewards in seen.items() if len(rewards) > 1]


def test_dynamic_sampling_trains_on_mixed_groups_alone_and_logs_all(home, tmp_path, monkeypatch):
    from buttress.train import dynamic

    batches = []
    gathered = dynamic.gathered

    def watched(trainer, generated, places):
        batches.append((generated, places, gathered(trainer, generated, places)))
        return batches[-1][2]

    monkeypatch.setattr(dynamic, "gathered", watched)
    out = tmp_path / "out"
    sampling = {"name": "dynamic_sampling", "max_batches": 20}
    reward = f"{home / 'rewards.py'}:rare"
    train(*tiny_run.settings(home, out, sampling=sampling, loss="dapo", reward=reward))
    rows = tiny_run.rollouts(out)
    live = mixed(rows)
    assert len(live) < len({row["group"] for row in rows})
    assert len(batches) == 4
    assert any(len(generated) > 1 for generated, _, _ in batches)
    for step, (generated, places, chosen) in enumerate(batches, start=1):
        groups = list(dict.fromkeys(row["group"] for row in rows if row["step"] == step))
        named = [groups[2 * batch + group] for batch, group in places]
        assert named == [group for group in groups if group in live][:2]
        logged = [row for group in named for row in rows if row["group"] == group]
        advantages = chosen["advantages"].tolist()
        assert advantages == pytest.approx([row["advantage"] for row in logged], abs=1e-6)
        assert chosen["completion_mask"].sum(dim=1).tolist() == [row["length"] for row in logged]
        assert int(chosen["num_items_in_batch"]) == sum(row["length"] for row in logged)
        assert len(generated) * 2 == len(groups)


def test_dynamic_sampling_that_finds_nothing_stops_with_a_message(home, tmp_path):
    sampling = {"name": "dynamic_sampling", "max_batches": 2}
    (home / "tied.py").write_text("def f(completions, **_):\n    return [1.0] * len(completions)\n")
    given = tiny_run.settings(
        home, tmp_path / "out", sampling=sampling, reward=f"{home / 'tied.py'}:f"
    )
    with pytest.raises(ButtressError, match="2 generation batches gave 0 groups"):
        train(*given)
    assert len(tiny_run.rollouts(tmp_path / "out")) == 16


@pytest.mark.parametrize("sampling", ["greso", "difficulty_pools", "dynamic_sampling"])
def test_ways_of_sampling_resume_as_the_same_run(home, tmp_path, monkeypatch, sampling):
    outs = tmp_path / "straight", tmp_path / "resumed"
    more = {"sampling": sampling, "reward": f"{home / 'rewards.py'}:failing", "steps": 6}
    train(*tiny_run.settings(home, outs[0], **more))
    monkeypatch.setenv("FAIL_AT", "5")
    with pytest.raises(ButtressError):
        train(*tiny_run.settings(home, outs[1], **more))
    monkeypatch.delenv("FAIL_AT")
    train(*tiny_run.settings(home, outs[1], **more), resume=True)
    assert tiny_run.weights(outs[0]) == tiny_run.weights(outs[1])
    assert tiny_run.rollouts(outs[0]) == tiny_run.rollouts(outs[1])


def test_a_stop_text_ends_completions(home, tmp_path):
    """A digit that ends them: nothing follows it, and such rollouts are not truncated."""
    out = tmp_path / "out"
    train(*tiny_run.settings(home, out, stop=["7", "a"], trainer={"max_completion_length": 12}))
    texts = [(row["completion"], row["truncated"]) for row in tiny_run.rollouts(out)]
    ended = [text for text, _ in texts if text[-1:] in ("7", "a")]
    assert ended
    assert not any("7" in text[:-1] or "a" in text[:-1] for text, _ in texts)
    assert not any(cut for text, cut in texts if text in ended)
    with pytest.raises(UsageError, match="not one token"):
        train(*tiny_run.settings(home, tmp_path / "other", stop=["ab"]))


def test_the_monitor_counts_every_generation_and_survives_a_resume(home, tmp_path, monkeypatch):
    from buttress.train import watching

    monitors = []
    made = watching.monitor_of
    monkeypatch.setattr(
        watching, "monitor_of", lambda *given: monitors.append(made(*given)) or monitors[-1]
    )
    outs = tmp_path / "straight", tmp_path / "resumed"
    more = {"reward": f"{home / 'rewards.py'}:failing", "monitor": {"warmup": 0, "window": 10}}
    train(*tiny_run.settings(home, outs[0], **more))
    monkeypatch.setenv("FAIL_AT", "4")
    with pytest.raises(ButtressError):
        train(*tiny_run.settings(home, outs[1], **more))
    monkeypatch.delenv("FAIL_AT")
    train(*tiny_run.settings(home, outs[1], **more), resume=True)
    first, _, last = monitors
    assert first.metrics() == pytest.approx(last.metrics(), nan_ok=True)
    acr = bt.collapse_rate(bt.read(outs[0] / "rollouts.jsonl").groups)
    assert first.metrics()["buttress/acr_run"] == pytest.approx(acr)
    with pytest.raises(UsageError, match=r"monitor: .*windwo"):
        train(*tiny_run.settings(home, tmp_path / "other", monitor={"windwo": 3}))


def test_without_a_monitor_the_rollouts_are_logged_all_the_same(home, tmp_path):
    train(*tiny_run.settings(home, tmp_path / "out", monitor=False, steps=1))
    assert len(tiny_run.rollouts(tmp_path / "out")) == 8

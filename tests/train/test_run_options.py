"""What a training can be told: updates, rewards, LoRA, frozen layers, sampling, stops, monitor."""

from __future__ import annotations

import json
import math

import pytest

import buttress as bt
from buttress.errors import ButtressError, UsageError
from tests.helpers import require
from tests.hooks import tiny
from tests.train import tiny_run
from tests.train.tiny_run import train

pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]


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
    more = {"reward": f"{home / 'rewards.py'}:failing", "monitor": {"warmup": 0, "window": 20}}
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


def test_a_policy_of_the_monitor_ends_the_run_with_a_checkpoint_to_go_on_from(home, tmp_path):
    out = tmp_path / "out"
    policy = {"when": "acr < 2", "then": "stop", "for_steps": 2}
    watch = {"warmup": 0, "policies": [policy]}
    done = train(*tiny_run.settings(home, out, steps=6, monitor=watch))
    assert done.steps < 6
    assert (out / f"checkpoint-{done.steps}").is_dir()
    given = tiny_run.settings(home, out, steps=6, monitor=False)
    assert train(*given, resume=True, accept_changes=True).steps == 6
    assert len(tiny_run.rollouts(out)) == 6 * 8

"""Settings of dynamic sampling beside a log: of every trainer, in every spelling, or not at all."""

from __future__ import annotations

import json

import pytest

import buttress as bt
from buttress.logs.sampling import settings_of
from tests.logs.writing import verl_row, write

VERL = """\
actor_rollout_ref:
  rollout: {n: 16}
data:
  train_batch_size: 32
  gen_batch_size: 48   # prompts at a time
  filter_overlong_prompts: true
algorithm:
  gamma: 1.0
  filter_groups:
    _target_: verl.trainer.config.FilterGroupsConfig
    enable: True
    metric: acc
    max_num_gen_batches: 10
trainer:
  logger: [console]
"""
NESTED = {
    "data": {"train_batch_size": 32, "gen_batch_size": 48},
    "algorithm": {"filter_groups": {"enable": True, "max_num_gen_batches": 10}},
}
NEMO = """\
grpo:
  num_prompts_per_step: 32
  use_dynamic_sampling: true
  batch_multiplier: 1.5
  dynamic_sampling_max_gen_batches: 10
"""
OVERRIDES = """\
- data.train_batch_size=32
- +data.gen_batch_size=48
- algorithm.filter_groups.enable=True
- algorithm.filter_groups.max_num_gen_batches=10
"""
WANDB = {
    "data": {"desc": None, "value": NESTED["data"]},
    "algorithm": {"value": NESTED["algorithm"]},
}


def run_with(folder, name, text, live=3):
    rows = [
        {"step": 1, "group": g, "prompt": f"p{g}", "reward": int(g < live and s % 2 == 0)}
        for g in range(48)
        for s in range(4)
    ]
    path = folder / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if name:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return bt.read(folder)


def settings(run):
    facts = run.facts
    return facts.live_groups, facts.generation_batch, facts.max_generation_batches


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", VERL),
        (".hydra/config.yaml", VERL),
        ("launch.yml", VERL),
        ("config.json", json.dumps(NESTED)),
        ("config.yaml", json.dumps(WANDB)),
        ("nemo.yaml", NEMO),
        ("overrides.yaml", OVERRIDES),
        (
            "config.json",
            '{"train_batch_size": 32, "gen_batch_size": 48, "max_num_gen_batches": 10}',
        ),
    ],
)
def test_the_settings_of_a_trainer_are_found(tmp_path, name, text):
    run = run_with(tmp_path, name, text)
    assert settings(run) == (32, 48, 10)
    assert any("dynamic sampling" in one for one in run.source.inferred)
    assert run.problems == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", VERL.replace("enable: True", "enable: False")),
        ("config.yaml", VERL.replace("batches: 10", "batches: 0")),
        ("config.yaml", "data:\n  train_batch_size: 32\n"),
        ("config.yaml", "- [broken: {yaml\n\x00"),
        ("config.json", "{"),
        (None, ""),
    ],
)
def test_without_dynamic_sampling_nothing_is_taken(tmp_path, name, text):
    assert settings(run_with(tmp_path, name, text))[2] is None


def test_what_is_null_is_the_size_of_the_update(tmp_path):
    text = VERL.replace("gen_batch_size: 48", "gen_batch_size: ${data.train_batch_size}")
    assert settings(run_with(tmp_path, "config.yaml", text)) == (32, 32, 10)


def test_two_files_that_disagree_are_not_believed(tmp_path):
    (tmp_path / "other.yaml").write_text(VERL.replace("batches: 10", "batches: 4"))
    run = run_with(tmp_path, "config.yaml", VERL)
    assert settings(run) == (None, None, None)
    assert any("disagree" in one for one in run.source.inferred)


def test_a13_from_files_alone(tmp_path):
    run_with(tmp_path, "config.yaml", VERL)
    found = [one for one in bt.diagnose(tmp_path).findings if one.rule == "resampling-stall"]
    assert found[0].evidence["batches"] == 11
    assert found[0].evidence["limit"] == 10


def test_names_are_dotted_and_comments_dropped():
    known = settings_of(VERL)
    assert known["algorithm.filter_groups.max_num_gen_batches"] == "10"
    assert known["data.gen_batch_size"] == "48"
    assert known["trainer.logger"] == "[console]"


@pytest.mark.parametrize("tied", [False, True])
def test_a_dump_of_verl_that_holds_what_was_trained_on_was_filtered(tmp_path, tied):
    rows = [
        verl_row(f"p{group}", f"{group}/{at}", float(at % 2 or (tied and group == 0)))
        for group in range(3)
        for at in range(4)
    ]
    write(tmp_path / "rollouts" / "1.jsonl", rows)
    (tmp_path / "rollouts" / "config.yaml").write_text(VERL)
    found = bt.diagnose(bt.read(tmp_path))
    assert (found.measures["acr"] is None) == (not tied)
    assert ("filtered-log" in [one.rule for one in found.findings]) == (not tied)

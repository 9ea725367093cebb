"""Every recipe is read, built and trained for a step, with a tiny model in the place of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from buttress.train.config import load
from buttress.train.source import Source
from tests.helpers import require
from tests.hooks import tiny
from tests.train import tiny_run

RECIPES = Path(__file__).parents[2] / "recipes"
TOMLS = sorted(RECIPES.glob("*.toml"))
pytestmark = [*map(pytest.mark.filterwarnings, tiny.QUIET)]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    """Recipes name their files from there."""
    monkeypatch.chdir(RECIPES.parent)


def of(path):
    source = Source.read(path)
    return load(source), source


@pytest.mark.trl
@pytest.mark.parametrize("path", TOMLS, ids=lambda path: path.stem)
def test_a_recipe_becomes_arguments_of_trl(path):
    require("trl")
    from buttress.train.arguments import adapter, grpo_arguments
    from buttress.train.dynamic import sampling_of

    config, source = of(path)
    for world in (1, 8):
        if config.rows % (world * config.updates) == 0:
            args = grpo_arguments(config, source, world=world)
            assert args.num_generations == config.group_size
            assert args.max_steps == config.steps
    assert config.steps % config.updates == 0
    sampling_of(config, source)
    if config.lora is not None:
        require("peft")
        assert adapter(config, source) is not None


@pytest.mark.trl
@pytest.mark.parametrize("path", TOMLS, ids=lambda path: path.stem)
def test_a_recipe_trains_for_one_generation(path, home, tmp_path):
    """Remedy, loss, sampling, rewards and rates as they stand; model, data and sizes are tiny."""
    from buttress.train.run import train

    config, source = of(path)
    if config.lora is not None:
        require("peft")
    updates = min(config.updates, 2)
    small = {
        "model": str(home / "model"),
        "data": str(home / "data.jsonl"),
        "out": str(tmp_path / "out"),
        "prompts": 2 * updates,
        "updates": updates,
        "steps": updates,
        "train_only": [r"layers\.1\."] if config.train_only else [],
        "stop": ["7"] if config.stop else [],
        "trainer.max_completion_length": 6,
        "trainer.per_device_train_batch_size": config.group_size,
        "trainer.save_steps": 2 * updates,
    }
    for name, value in small.items():
        source.set(tuple(name.split(".")), value, "test")
    # a random model solves nothing: a reward that it gets now and then stands for the answers
    rewards = [{"use": f"{home / 'rewards.py'}:rare"}]
    rewards += [one for one in source.values["reward"][1:] if isinstance(one, dict)]
    source.set(("reward",), rewards, "test")
    train(load(source), source)
    rows = tiny_run.rollouts(tmp_path / "out")
    assert len(rows) >= 2 * updates * config.group_size
    history = json.loads((tmp_path / "out" / "trainer_state.json").read_text())["log_history"]
    lines = [line for line in history if "reward" in line]
    assert lines
    assert all(line["buttress/fallback"] == 0 for line in lines)
    assert all(line.get("buttress/loss_fallback", 0) == 0 for line in history)


@pytest.mark.trl
def test_the_tiny_recipe_runs_as_it_stands(tmp_path):
    require("trl")
    from buttress.train.run import train

    config, source = of(RECIPES / "cpu-tiny.toml")
    source.set(("out",), str(tmp_path / "out"), "test")
    source.set(("steps",), 3, "test")
    train(load(source), source)
    rows = tiny_run.rollouts(tmp_path / "out")
    assert len(rows) == 3 * config.rows
    correct = [row["correct"] for row in rows]
    assert sum(correct) < 0.2 * len(rows)
    right = [row for row in rows if row["correct"]]
    assert all(row["completion"] == "".join(sorted(row["prompt"][:-1])) for row in right)


@pytest.mark.parametrize("path", TOMLS, ids=lambda path: path.stem)
def test_the_readme_tells_of_every_recipe(path):
    assert f"`{path.name}`" in (RECIPES / "README.md").read_text()


def test_overlong_penalty():
    sys.path.insert(0, str(RECIPES))
    try:
        from rewards import overlong
    finally:
        sys.path.remove(str(RECIPES))
    ids = [[0] * count for count in (0, 6, 7, 8, 10, 12)]
    assert overlong(ids, longest=10, soft=4) == [0, 0, -0.25, -0.5, -1, -1]


@pytest.mark.parametrize(("kind", "suffix"), [("verl", ".parquet"), ("swift", ".jsonl")])
def test_problems_for_other_trainers(tmp_path, kind, suffix):
    path = tmp_path / f"out{suffix}"
    command = [sys.executable, "recipes/prepare.py", kind, "recipes/data/sums.jsonl", str(path)]
    subprocess.run(command, check=True, timeout=120)
    first = json.loads((RECIPES / "data/sums.jsonl").read_text().splitlines()[0])
    if kind == "verl":
        row = pl.read_parquet(path).row(0, named=True)
        assert row["reward_model"]["ground_truth"] == first["answer"]
        messages = row["prompt"]
    else:
        row = json.loads(path.read_text().splitlines()[0])
        assert row["solution"] == first["answer"]
        messages = row["messages"]
    assert [one["role"] for one in messages] == ["system", "user"]
    assert messages[1]["content"] == first["prompt"]


def test_the_script_for_swift_is_a_script():
    script = RECIPES / "swift" / "avspo.sh"
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)
    assert script.stat().st_mode & 0o111


@pytest.mark.trl
@pytest.mark.parametrize("name", ["fsdp", "zero3"])
def test_accelerate_reads_its_configurations(name):
    require("accelerate")
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(RECIPES / "accelerate" / f"{name}.yaml"))
    assert config.num_processes == 8

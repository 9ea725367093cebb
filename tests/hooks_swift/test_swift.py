"""The ms-swift plugin in real training runs: one process, two processes, resumed.

Needs an environment with ms-swift (4.6.0, msgspec) in which buttress is installed::

    python -m pytest tests/hooks_swift
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("swift.rlhf_trainers", reason="needs ms-swift")

import buttress as bt
from buttress.hooks.swift_plugin import PLUGIN
from tests.hooks import tiny

pytestmark = pytest.mark.filterwarnings("ignore")

REWARDS = '''
from swift.rewards import ORM, orms


class Right(ORM):
    """By the parity of the solution: a group of zeros, or one success in four."""

    def __call__(self, completions, solution, **kwargs):
        return [float(int(s) % 2 == 0 and i % 4 == 1) for i, s in enumerate(solution)]


class Short(ORM):
    def __call__(self, completions, **kwargs):
        return [None if len(one) > 5 else 0.25 for one in completions]


orms["right"] = Right
orms["short"] = Short
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: Any) -> Path:
    """A folder with a random model, eight prompts and two rewards."""
    folder = tmp_path_factory.mktemp("swift")
    tokens = tiny.tokenizer()
    tokens.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    model = tiny.model(tokens)
    model.config.max_position_embeddings = 256
    model.save_pretrained(folder / "model")
    tokens.save_pretrained(folder / "model")
    rows = [
        {"messages": [{"role": "user", "content": f"{a}+1="}], "solution": str(a + 1)}
        for a in range(8)
    ]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "rewards.py").write_text(REWARDS)
    return folder


def train(
    place: Path,
    output: str,
    remedy: str,
    options: dict[str, Any] | None = None,
    *more: str,
    batch: int = 8,
    processes: int = 1,
    rewards: tuple[str, ...] = ("right", "short"),
    monitor: Any = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``swift rlhf`` for four steps of groups of four."""
    settings = {
        "rlhf_type": "grpo",
        "model": "model",
        "model_type": "qwen2",
        "template": "qwen2_5",
        "tuner_type": "full",
        "torch_dtype": "float32",
        "attn_impl": "eager",
        "dataset": "data.jsonl",
        "num_generations": 4,
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 6,
        "max_steps": 4,
        "logging_steps": 1,
        "save_steps": 2,
        "save_total_limit": 5,
        "output_dir": output,
        "add_version": "false",
        "log_completions": "true",
        "dataset_num_proc": 1,
        "dataloader_num_workers": 0,
        "learning_rate": 1e-3,
        "temperature": 1.0,
        "beta": 0,
        "report_to": "none",
        "use_cpu": "true",
        "check_model": "false",
    }
    command = [str(Path(sys.executable).with_name("swift")), "rlhf"]
    for name, value in settings.items():
        command += [f"--{name}", str(value)]
    command += ["--external_plugins", "rewards.py", str(PLUGIN), "--reward_funcs", *rewards]
    environment = {
        **os.environ,
        "BUTTRESS_REMEDY": remedy,
        "BUTTRESS_OPTIONS": json.dumps(options or {}),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    if monitor is not None:
        environment["BUTTRESS_MONITOR"] = json.dumps(monitor)
    if processes > 1:
        environment["NPROC_PER_NODE"] = str(processes)
        command += ["--ddp_backend", "gloo"]
    return subprocess.run(
        [*command, *more], cwd=place, env=environment, capture_output=True, text=True, timeout=400
    )


def steps_of(place: Path, output: str) -> list[dict[str, list[Any]]]:
    """The completions of each step, as ms-swift logged them."""
    found = {}
    for line in (place / output / "completions.jsonl").read_text().splitlines():
        row = json.loads(line)
        found[int(row["step"][0])] = row  # the end of training repeats the last step
    return [found[step] for step in sorted(found)]


def metrics_of(place: Path, output: str) -> list[dict[str, Any]]:
    lines = (place / output / "logging.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "loss" in row]


def number(value: Any) -> float:
    return np.nan if value is None else float(value)


def totals(row: dict[str, list[Any]]) -> np.ndarray:
    parts = np.array([[number(one) for one in row[name]] for name in ("Right", "Short")])
    return np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))


def state_of(place: Path, output: str, step: int) -> Any:
    return json.loads((place / output / f"checkpoint-{step}" / "buttress_state.json").read_text())


def test_one_process(place: Path) -> None:
    done = train(place, "one", "avspo", {"threshold": "always", "anchor": 0.2})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "buttress could" not in done.stdout + done.stderr
    steps = steps_of(place, "one")
    assert len(steps) == 4
    moved = 0
    for row, metrics in zip(steps, metrics_of(place, "one"), strict=True):
        rewards = totals(row)
        groups = np.arange(len(rewards)) // 4
        est = bt.estimator("avspo", threshold="always", anchor=0.2)
        expected = est(bt.Groups.from_flat(rewards, groups))
        assert np.array(row["advantages"]) == pytest.approx(expected, abs=1e-5)
        assert float(metrics["buttress/acr"]) == pytest.approx(est.reading["acr"], abs=1e-3)
        assert float(metrics["buttress/fallback"]) == 0
        moved += np.abs(expected).any()
    assert moved


@pytest.fixture(scope="module")
def two_ranks(place: Path) -> str:
    """Three groups of four over two ranks of six rows: the middle group lies on both."""
    done = train(place, "two", "posterior", batch=6, processes=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "buttress could" not in done.stdout + done.stderr
    return "two"


def test_two_processes_with_a_memory_of_prompts(place: Path, two_ranks: str) -> None:
    est = bt.estimator("posterior")
    for row in steps_of(place, two_ranks):
        rewards = totals(row)
        groups = np.arange(len(rewards)) // 4
        prompts = [row["prompt"][4 * g] for g in range(len(rewards) // 4)]
        expected = est(bt.Groups.from_flat(rewards, groups, prompt_id=prompts))
        assert np.array(row["advantages"]) == pytest.approx(expected, abs=1e-5)
    mine, theirs = est.state_dict(), state_of(place, two_ranks, 4)["estimator"]
    assert len(theirs["prompts"]) == len(mine["prompts"])
    assert np.array(theirs["past"]) == pytest.approx(np.array(mine["past"]), rel=1e-5)


def test_a_resumed_run_goes_on(place: Path, two_ranks: str) -> None:
    done = train(
        place,
        "again",
        "posterior",
        {},
        "--resume_from_checkpoint",
        f"{two_ranks}/checkpoint-2",
        batch=6,
        processes=2,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "buttress could" not in done.stdout + done.stderr
    before, whole = (state_of(place, two_ranks, step)["estimator"] for step in (2, 4))
    after = state_of(place, "again", 4)["estimator"]
    assert after["prompts"][: len(before["prompts"])] == before["prompts"]
    # the count of what was seen fades from step to step: it tells how many there were
    assert after["past"][0] == pytest.approx(whole["past"][0])
    assert after["past"][0] > 1.2 * before["past"][0]


def test_wrong_configuration_ends_before_training(place: Path) -> None:
    done = train(place, "wrong", "dr_grpo", None, "--scale_rewards", "batch")
    assert done.returncode != 0
    assert "scale_rewards='batch' would have no effect" in done.stdout + done.stderr
    done = train(place, "wrong", "avpso")
    assert done.returncode != 0
    assert "Did you mean 'avspo'" in done.stdout + done.stderr
    assert not (place / "wrong" / "completions.jsonl").exists() or not steps_of(place, "wrong")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_monitor_counts_logs_and_stops_the_run(place: Path, processes: int) -> None:
    policy = {"when": "acr_run > -1", "for_steps": 3, "then": ["warn", "stop"]}
    output = f"monitored{processes}"
    monitor = {"policies": [policy], "warmup": 0, "jsonl": f"{output}.jsonl"}
    size = {"batch": 8 // processes, "processes": processes}
    done = train(place, output, "grpo", monitor=monitor, **size)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "buttress could" not in done.stdout + done.stderr
    state = state_of(place, output, 3)["monitor"]
    assert [event["action"] for event in state["acting"]["events"]] == ["warn", "stop"]
    assert not (place / output / "checkpoint-4").exists()
    rates = [bt.collapse_rate(groups_of(row)) for row in steps_of(place, output)]
    assert len(rates) == 3
    logged = metrics_of(place, output)
    assert float(logged[-1]["buttress/acr_run"]) == pytest.approx(np.mean(rates), abs=1e-3)
    lines = (place / f"{output}.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def groups_of(row: dict[str, list[Any]]) -> bt.Groups:
    rewards = totals(row)
    return bt.Groups.from_flat(rewards, np.arange(len(rewards)) // 4)

"""Small dumps of several frameworks, and what each of their readers has to stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from buttress.logs import files
from buttress.logs.reader import readers
from tests.logs.writing import rollouts, verl_row, write

Table = Mapping[str, Sequence[Any]]
# Two groups of four: mixed and tied.
TABLE: Table = {"a": [0.0, 1.0, 0.0, 1.0], "b": [1.0, 1.0, 1.0, 1.0]}


def swift_line(table: Table = TABLE, step: int = 1, **more: Any) -> dict[str, Any]:
    """Return one line of ms-swift's completions."""
    rows = [(key, at, reward) for key, some in table.items() for at, reward in enumerate(some)]
    known = [reward for _, _, reward in rows if isinstance(reward, int | float)]
    mean = sum(known) / max(len(known), 1)
    return {
        "step": [str(step)] * len(rows),
        "prompt": [f"user\n{key}" for key, _, _ in rows],
        "completion": [f"{key}/{at} at {step}" for key, at, _ in rows],
        "Right": [reward for _, _, reward in rows],
        "advantages": [
            reward - mean if isinstance(reward, int | float) else 0.0 for _, _, reward in rows
        ],
    } | more


def shard_rows(table: Table = TABLE, step: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Return the rows that open-instruct saves of one step."""
    rows = [(key, at, reward) for key, some in table.items() for at, reward in enumerate(some)]
    return [
        {
            "step": step,
            "sample_idx": place,
            "prompt_idx": list(table).index(key),
            "prompt_tokens": [1, *key.encode()],
            "response_tokens": [7, step, *range(at + 1)],
            "reward": reward,
            "advantage": 0.5,
            "finish_reason": "length" if at == 3 else "stop",
            "dataset": "gsm8k",
            "ground_truth": [4],
            "request_info": {"num_calls": 0, "tool_outputs": "", "rollout_state": {}},
            "logprobs": [-0.5] * (at + 3),
        }
        | more
        for place, (key, at, reward) in enumerate(rows)
    ]


def roll_line(table: Table = TABLE, step: int = 1, **more: Any) -> dict[str, Any]:
    """Return the one line that ROLL's RLVR pipeline writes of a step."""
    rows = [(key, at, reward) for key, some in table.items() for at, reward in enumerate(some)]
    return {
        "id": [f"row-{key}" for key, _, _ in rows],
        "source": ["set"] * len(rows),
        "difficulty": ["0.5"] * len(rows),
        "prompt": [f"What is {key}?" for key, _, _ in rows],
        "messages": [json.dumps([{"role": "user", "content": key}]) for key, _, _ in rows],
        "ground_truth": ["4"] * len(rows),
        "tag": ["math"] * len(rows),
        "domain": ["math_rule"] * len(rows),
        "responses": [f"{key}/{at} at {step}" for key, at, _ in rows],
        "scores": [reward for _, _, reward in rows],
        "sampling_params": [json.dumps({"global_step": step})] * len(rows),
        "global_step": [step] * len(rows),
    } | more


def episode(task: str = "a", number: int = 0, reward: Any = 1.0, step: int = 1, **more: Any) -> Any:
    """Return an episode of one trajectory, as rLLM logs it."""
    return {
        "training_step": step,
        "epoch": 0,
        "episode_id": f"{task}:{number}",
        "session_id": None,
        "task": {"question": f"What is {task}?", "ground_truth": "4"},
        "task_hash": f"{ord(task[0]):08x}",
        "is_correct": reward == 1,
        "termination_reason": "env_done",
        "metrics": {"steps": 1},
        "metadata": {},
        "timing": {},
        "trajectories": [trajectory(f"{task}/{number} at {step}", reward)],
    } | more


def trajectory(said: str, reward: Any, name: str = "solver", **more: Any) -> dict[str, Any]:
    """Return a trajectory of one step."""
    step = {
        "observation": None,
        "thought": "",
        "action": said,
        "reward": 0.0,
        "done": True,
        "model_response": said,
        "chat_completions": [{"role": "assistant", "content": said}],
        "timing": {},
    }
    plain = {"name": name, "uid": said, "reward": reward, "num_steps": 1, "timing": {}}
    return plain | {"steps": [step]} | more


def write_episodes(folder: Path, table: Table = TABLE, step: int = 1, mode: str = "train") -> Path:
    """Write one file for each rollout, and the summary beside them."""
    place = folder / "episodes" / f"{mode}_step_{step}_epoch_0"
    place.mkdir(parents=True)
    for task, rewards in table.items():
        for number, reward in enumerate(rewards):
            found = episode(task, number, reward, step)
            path = place / f"episode_hash{found['task_hash']}_id{task}_{number}.json"
            path.write_text(json.dumps(found, indent=2) + "\n")
    (place / "batch_summary.json").write_text(json.dumps({"training_step": step}, indent=2))
    return folder


def summary_rows(
    table: Table = TABLE, iteration: int = 1, split: str = "train", **more: Any
) -> list[dict[str, Any]]:
    """Return the summaries that tinker-cookbook writes of one iteration."""
    return [
        {
            "schema_version": 1,
            "split": split,
            "iteration": iteration,
            "group_idx": group,
            "traj_idx": at,
            "tags": ["math"],
            "sampling_client_step": iteration,
            "total_reward": reward,
            "final_reward": 0.0,
            "trajectory_metrics": {},
            "steps": [summary_step(reward, at)],
            "final_ob_len": 0,
        }
        | more
        for group, some in enumerate(table.values())
        for at, reward in enumerate(some)
    ]


def summary_step(reward: Any, at: int, **metrics: float) -> dict[str, Any]:
    """Return a step of a trajectory."""
    return {
        "step_idx": 0,
        "ob_len": 50,
        "ac_len": 10 + at,
        "reward": reward,
        "episode_done": True,
        "metrics": {"format": 1.0, "correct": float(reward == 1), **metrics},
        "logs": {},
    }


def write_all(folder: Path) -> dict[str, Path]:
    """Write a file of each format; the name of the format -> one of its files."""
    write_episodes(folder / "rllm")
    return {
        "ms-swift": write(folder / "swift/completions.jsonl", [swift_line()]),
        "open-instruct": write(folder / "oi/run_rollouts_000000.jsonl", shard_rows()),
        "roll": write(folder / "roll/rollout_dump_data.step_1.jsonl", [roll_line()]),
        "tinker": write(
            folder / "tinker/iteration_000001/train_rollout_summaries.jsonl", summary_rows()
        ),
        "rllm": min((folder / "rllm").rglob("episode_*.json")),
        "verl": write(folder / "verl/1.jsonl", [verl_row("p", "c", 1.0)] * 4),
        "generic": write(folder / "generic.jsonl", rollouts({"a": [0, 1]})),
        "metrics": write(folder / "metrics.jsonl", [{"step": 1, "loss": 0.5, "grad_norm": 1.0}]),
    }


def takers(path: Path) -> list[str]:
    """Return the names of all readers of rollouts that recognise a file, in their order."""
    head = files.head(path)
    found = [one.name for one in readers() if one.kind == "rollouts" and one.sniff(path, head)]
    return list(dict.fromkeys(found))


def refuses_others(name: str, folder: Path) -> None:
    """Check that one reader takes its own format first, and no other."""
    for format, path in write_all(folder).items():
        found = takers(path)
        assert (name in found) == (format == name), (format, found)
        if format == name:
            assert found[0] == name


def diagnosed(capsys: Any, *arguments: Any) -> dict[str, Any]:
    """Return what ``buttress diagnose --json`` says."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", *map(str, arguments), "--json", "--fail-on", "never"])
    shown = capsys.readouterr()
    assert ended.value.code == 0, shown.err
    return json.loads(shown.out)


def survives(folder: Path, name: str, data: bytes) -> bt.Run | None:
    """Read damaged bytes; None where nothing could be read, and then the message says so."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        return bt.read(path)
    except InputError as fault:
        message = str(fault)
    assert path.name in message
    return None


def every_cut(data: bytes, read: Callable[[bytes], Any], parts: int = 40) -> None:
    """Check that a file may end anywhere."""
    for end in range(0, len(data), max(1, len(data) // parts)):
        read(data[:end])

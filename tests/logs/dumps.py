"""Small logs as frameworks write them; each function writes one step and returns the folder.

Groups are lists of rewards by prompt number; further columns of every row are keywords.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.logs.writing import write

Groups = Mapping[int, Sequence[Any]]
GROUPS: Groups = {0: [0, 1, 1, 0], 1: [1, 1, 1, 1], 2: [0, 0, 0, 1]}


def _flat(groups: Groups) -> Iterator[tuple[int, int, Any]]:
    for prompt, rewards in groups.items():
        for at, reward in enumerate(rewards):
            yield prompt, at, reward


def nemo_row(prompt: int, answer: int, reward: Any, /, **extra: Any) -> dict[str, Any]:
    """Return a line of ``train_data_step<n>.jsonl``: a batch of one, padded to 8 tokens."""
    tokens = [100 + prompt, 7, 20 + answer, 21, 22][: 4 + answer % 2]
    mask = [0.0, 0.0] + [1.0] * (len(tokens) - 2)
    pad = [0] * (8 - len(tokens))
    return {
        "content": [[f"prompt {prompt}", f"answer {answer}"]],
        "rewards": [reward],
        "input_lengths": [len(tokens)],
        "token_ids": [tokens + pad],
        "token_loss_mask": [mask + [0.0] * len(pad)],
        "sample_loss_mask": [1.0],
        "advantages": [[0.5 * (answer - 1)] * 8],
        "generation_logprobs": [[-0.5] * 8],
        "prev_logprobs": [[-0.5] * 8],
        "idx": 4 * prompt + answer,
    } | extra


def nemo(folder: Path, groups: Groups = GROUPS, step: int = 1, **extra: Any) -> Path:
    """Write the training data of NeMo-RL."""
    rows = [nemo_row(*one, **extra) for one in _flat(groups)]
    write(folder / f"train_data_step{step}.jsonl", rows)
    return folder


def areal_row(task: int, sample: int, reward: Any, version: int = 1, /, **extra: Any) -> dict:
    """Return a line of a task file."""
    return {
        "task_id": task,
        "sample_idx": sample,
        "seqlen": 12 + sample,
        "prompt_len": 10,
        "head_version": max(version - 1, 0),
        "tail_version": version,
        "reward": reward,
        "prompt": f"prompt {task}",
        "completion": f"answer {sample} at {version}",
    } | extra


def areal(folder: Path, groups: Groups = GROUPS, step: int = 1, **extra: Any) -> Path:
    """Write a file per task of AReaL."""
    for task, rewards in groups.items():
        rows = [areal_row(task, at, one, step, **extra) for at, one in enumerate(rewards)]
        write(folder / "rollout" / str(step) / f"{task}.jsonl", rows)
    return folder


def skyrl_row(prompt: int, answer: int, score: Any, /, **extra: Any) -> dict[str, Any]:
    """Return a line of a dumped evaluation."""
    return {
        "input_prompt": f"prompt {prompt}",
        "output_response": f"answer {answer}",
        "score": score,
        "stop_reason": "length" if answer == 2 else "stop",
        "env_class": "gsm8k",
        "env_extras": {"reward_spec": {"ground_truth": "4"}, "extra_info": {"index": prompt}},
        "data_source": "openai/gsm8k",
    } | extra


def skyrl(folder: Path, groups: Groups = GROUPS, step: int = 1, **extra: Any) -> Path:
    """Write an evaluation of SkyRL with its metrics."""
    evals = folder / "dumped_evals" / f"global_step_{step}_evals"
    write(evals / "openai_gsm8k.jsonl", [skyrl_row(*one, **extra) for one in _flat(groups)])
    metrics = {"eval/openai_gsm8k/avg_score": 0.5, "eval/all/avg_score": 0.25}
    write(evals / "aggregated_results.jsonl", [metrics])
    return folder


def result_row(prompt: int, answer: int, reward: Any, /, **extra: Any) -> dict[str, Any]:
    """Return a line of verifiers' results from before its v1 environments."""
    return {
        "example_id": prompt,
        "prompt": [{"role": "user", "content": f"prompt {prompt}"}],
        "completion": [{"role": "assistant", "content": f"answer {answer}"}],
        "reward": reward,
        "timing": {"total_ms": 1.0},
        "is_completed": True,
        "is_truncated": answer == 2,
        "metrics": {"correct_answer": reward, "format_reward": 1.0, "num_turns": 1},
        "correct_answer": reward,
        "token_usage": {"input_tokens": 9.0, "output_tokens": 5.0},
    } | extra


def results(folder: Path, groups: Groups = GROUPS, **extra: Any) -> Path:
    """Write the results and metadata of such an evaluation."""
    write(folder / "results.jsonl", [result_row(*one, **extra) for one in _flat(groups)])
    (folder / "metadata.json").write_text(json.dumps({"env_id": "sums", "avg_reward": 0.5}))
    return folder

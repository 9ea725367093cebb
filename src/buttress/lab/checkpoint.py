"""The shipped checkpoint: a tiny decoder that has the skill and hardly uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import MissingExtraError
from buttress.lab.tasks import LatentSkill, Problem

CHECKPOINTS = Path(__file__).parent / "checkpoints"


def load(path: Path = CHECKPOINTS / "latent-skill") -> tuple[Any, Any]:
    """Return model and tokenizer of a checkpoint directory, from this machine alone.

    The weights are stored in half precision and computed with in single precision.
    """
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingExtraError.of("the laboratory", "trl") from None
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    return model, tokenizer


def completions(
    model: Any, tokenizer: Any, problems: list[Problem], *, n_tokens: int, **sampling: Any
) -> list[str]:
    """Return one completion per problem of at most n_tokens; greedy unless `sampling` says not."""
    import torch

    prompts = tokenizer([problem.prompt for problem in problems], return_tensors="pt", padding=True)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        rows = model.generate(
            **prompts, max_new_tokens=n_tokens, **({"do_sample": False} | sampling)
        )
    model.train(was_training)
    width = prompts["input_ids"].shape[1]
    return tokenizer.batch_decode(rows[:, width:], skip_special_tokens=True)


def greedy_accuracy(
    model: Any, tokenizer: Any, task: LatentSkill, problems: list[Problem]
) -> NDArray[np.float64]:
    """Return the verdict on the most likely answer to each problem, shape ``(problem,)``."""
    answers = completions(model, tokenizer, problems, n_tokens=task.width + 2)
    return _verdicts(task, problems, answers)


def sampled_rewards(
    model: Any,
    tokenizer: Any,
    task: LatentSkill,
    problems: list[Problem],
    *,
    group_size: int = 8,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return rewards of groups sampled at temperature 1, shape ``(problem, sample)``."""
    import torch

    asked = [problem for problem in problems for _ in range(group_size)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        answers = completions(
            model, tokenizer, asked, n_tokens=task.width + 2, do_sample=True, top_k=0
        )
    return _verdicts(task, asked, answers).reshape(len(problems), group_size)


def _verdicts(
    task: LatentSkill, problems: list[Problem], answers: list[str]
) -> NDArray[np.float64]:
    return np.array(
        [
            task.verify(problem.prompt, answer)
            for problem, answer in zip(problems, answers, strict=True)
        ]
    )

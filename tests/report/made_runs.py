"""Runs for the tests of the report, made from a simple model of prompts and learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from buttress.groups import Groups, LogFacts, Problem, Run, Scalar, Source, Text
from buttress.report import diagnose
from buttress.report.view import View

Say = Callable[[int, bool], str]


def made_run(
    steps: int = 120,
    per_step: int = 8,
    size: int = 8,
    *,
    prompts: int = 64,
    seed: int = 0,
    ease: float = 0.0,
    complete: Say | None = None,
    **source: object,
) -> Run:
    """Return a run whose prompts are mostly too hard or too easy; the middle is learnt.

    `ease` is added to every success rate. The reward is correctness plus 0.1 for the format; a
    fifth of the failures hit the length cap.
    """
    rng = np.random.default_rng(seed)
    n = steps * per_step
    which = rng.integers(prompts, size=n)
    step = np.repeat(np.arange(1, steps + 1), per_step)
    skill = rng.beta(0.35, 0.55, size=prompts)[which] * 0.9 + 0.25 * step / steps
    correct = rng.random((n, size)) < np.clip(skill + ease - 0.12, 0, 1)[:, None]
    form = rng.random((n, size)) < 0.96 + 0.06 * (step / steps)[:, None]
    truncated = ~correct & (rng.random((n, size)) < 0.2)
    reward = correct + 0.1 * form
    spread = reward.std(axis=1, keepdims=True)
    advantage = np.where(
        spread > 1e-9, (reward - reward.mean(1, keepdims=True)) / (spread + 1e-6), 0
    )
    length = np.where(truncated, 512, rng.integers(60, 420, size=(n, size)))
    groups = Groups.from_dense(
        reward,
        prompt_id=[f"q{one:03d}" for one in which],
        step=step,
        **{
            "correct": correct.astype(float),
            "reward/accuracy": correct.astype(float),
            "reward/format": form.astype(float),
            "length": length,
            "truncated": truncated.astype(float),
            "advantage": advantage,
        },
    )
    flat = correct.reshape(-1)
    say = complete or _solution

    def texts(samples: object) -> list[Text]:
        return [
            Text(_question(int(which[one // size])), say(int(one), bool(flat[one])))
            for one in samples  # type: ignore[attr-defined]
        ]

    at = np.arange(1, steps + 1)
    return Run(
        groups,
        scalars={"grad_norm": Scalar(at, rng.lognormal(-1, 0.4, size=steps))},
        source=Source(
            **{  # type: ignore[arg-type]
                "paths": ("runs/maths-1.5b/rollouts",),
                "format": "verl",
                "inferred": ("groups: rows of one step and prompt text",),
                **source,
            }
        ),
        problems=(
            Problem("runs/maths-1.5b/rollouts/57.jsonl", 64, "cut off in the middle of a row"),
        ),
        texts=texts,
        facts=LogFacts(grouped_by="prompt", group_size=size, groups_per_step=per_step),
    )


def hostile_run(text: str, **options: object) -> Run:
    """Return a small run that shows one text wherever a file can put text."""
    rng = np.random.default_rng(1)
    groups = Groups.from_dense(
        np.zeros((4, 4)),
        prompt_id=[f"{text}{n}" for n in range(4)],
        step=[1, 1, 2, 2],
        correct=np.zeros((4, 4)),
        length=rng.integers(1, 9, size=(4, 4)),
        **{f"reward/{text}": rng.random((4, 4))},
    )
    return Run(
        groups,
        source=Source(paths=(text,), format=text, inferred=(text,)),
        problems=(Problem(text, 1, text),),
        texts=lambda samples: [Text(text, text) for _ in samples],
        **options,  # type: ignore[arg-type]
    )


def _question(which: int) -> str:
    return (
        f"A train leaves at {which % 12 + 1}:15 and travels {40 + which} km at "
        f"{30 + which % 50} km/h. When does it arrive?\n"
        "Think step by step and put the final answer into \\boxed{}."
    )


def _solution(sample: int, correct: bool) -> str:
    rng = np.random.default_rng(sample)
    lines = [
        f"Step {n}: {rng.integers(2, 99)} × {rng.integers(2, 99)} = {rng.integers(4, 9999)}, so "
        "the distance over the speed gives the travel time in hours."
        for n in range(1, int(rng.integers(3, 18)))
    ]
    answer = "10:05" if correct else f"{rng.integers(1, 12)}:{rng.integers(10, 59)}"
    return "\n".join([*lines, f"The answer is \\boxed{{{answer}}}."])


def small() -> Groups:
    """Five groups over two steps: mixed, all wrong, all wrong, all correct, tied between."""
    return Groups.from_nested(
        [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0.5, 0.5]],
        prompt_id=["a", "b", "b", "c", "d"],
        step=[1, 1, 2, 2, 2],
        length=[[1, 2, 3, 4], [10, 10, 10, 10], [20, 20, 20, 20], [5, 5, 5, 5], [7, 7]],
        **{"reward/format": [[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 0]]},
        advantage=[[1, -1, -1, 1], [0, 0, 0, 0], [0, 0, 0, 0.5], [0, 0, 0, 0], [0, 0]],
    )


def view_of(run: Run | Groups, **options: object) -> View:
    """Return the view model of a run."""
    return View.of(diagnose(run, **options))  # type: ignore[arg-type]

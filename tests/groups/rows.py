"""Rows of made logs, and what the check says of them."""

import numpy as np

from buttress import Groups
from buttress.groups import check_grouping

rng = np.random.default_rng(20)


def flat(rows, *, facts=None, **columns):
    """Check rows of ``(group id, prompt, step)``; rewards do not matter here."""
    ids, prompts, steps = zip(*rows, strict=True)
    rewards = rng.integers(0, 2, len(rows)).astype(float)
    groups = Groups.from_flat(
        rewards, list(ids), prompt_id=list(prompts), step=list(steps), **columns
    )
    return check_grouping(groups, facts)


def kinds(problems):
    return [problem.kind for problem in problems]


def step_of(prompts, size, step=1, parts=(), name="g"):
    """Rows of one step: each prompt with one group of `size`, or with one id per part."""
    return [
        (f"{name}-{step}-{prompt}-{part}", prompt, step)
        for prompt in prompts
        for part, n in enumerate(parts or (size,))
        for _ in range(n)
    ]


def prompts(n, start=0):
    return [f"p{i}" for i in range(start, start + n)]

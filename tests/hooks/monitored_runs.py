"""Small runs for the tests of the monitor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from buttress.groups import Groups

LEVELS = [0.0, 0.5, 1.0, None]


@st.composite
def runs(draw: Any, steps: int = 30) -> list[tuple[int, Groups]]:
    """Draw a run: batches of ragged groups with prompts, verdicts, lengths, in step order."""
    numbers = sorted(draw(st.lists(st.integers(0, steps), min_size=1, max_size=8)))
    return [(step, draw(batches())) for step in numbers]


@st.composite
def batches(draw: Any) -> Groups:
    """Draw a batch of up to five groups."""
    rows = draw(
        st.lists(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4), min_size=1, max_size=5)
    )
    columns = {
        name: [[draw(values) for _ in row] for row in rows]
        for name, values in COLUMNS.items()
        if draw(st.booleans())
    }
    prompts = [draw(st.sampled_from("abcdefgh")) for _ in rows]
    return Groups.from_nested(rows, prompt_id=prompts, **columns)


COLUMNS = {
    "correct": st.sampled_from([0.0, 1.0, None]),
    "length": st.integers(1, 9),
    "truncated": st.booleans(),
    "advantage": st.sampled_from([0.0, 1.5]),
    "reward/format": st.sampled_from([0.0, 0.2]),
}


def collapsed(n_groups: int = 8, size: int = 4, **columns: Any) -> Groups:
    """Return groups of zeros only."""
    return Groups.from_dense(np.zeros((n_groups, size)), **columns)


def mixed(n_groups: int = 8, size: int = 4, **columns: Any) -> Groups:
    """Return groups that all hold zeros and ones."""
    return Groups.from_dense(np.tile(np.arange(size) % 2.0, (n_groups, 1)), **columns)


def random_batch(draws: np.random.Generator, n_groups: int = 8, n_prompts: int = 40) -> Groups:
    """Return groups of 4 whose prompts are solved as often as their number says."""
    prompts = draws.integers(n_prompts, size=n_groups)
    rates = prompts[:, None] / (n_prompts - 1)
    rewards = (draws.random((n_groups, 4)) < rates).astype(float)
    return Groups.from_dense(rewards, prompt_id=[f"p{prompt}" for prompt in prompts])


def same(first: dict[str, float], second: dict[str, float]) -> None:
    """Require equal numbers under equal names."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        both_unknown = math.isnan(value) and math.isnan(other)
        assert both_unknown or math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12), name

"""Batches for the tests of the measures, and what Python loops make of them."""

import math

import numpy as np
from hypothesis import strategies as st

from buttress import Groups

nan = float("nan")

reward = st.one_of(
    st.sampled_from([0, 1, -1, 2, 0.5, 0.1, 0.7, 1e-9, 0.99999994]),
    st.floats(-3, 3),
    st.sampled_from([None, nan, math.inf, -math.inf]),
)
verdict = st.sampled_from([0, 1, 0.5, None])


@st.composite
def batches(draw, max_groups=8, rewards=reward):
    """A ragged batch with every column that some measure looks at."""
    sizes = draw(st.lists(st.integers(0, 6), max_size=max_groups))

    def rows(values):
        return [draw(st.lists(values, min_size=n, max_size=n)) for n in sizes]

    columns = {}
    if draw(st.booleans()):
        columns["correct"] = rows(verdict)
    if draw(st.booleans()):
        columns["length"] = rows(st.one_of(st.integers(0, 99), st.none()))
    if draw(st.booleans()):
        columns["completion"] = rows(st.sampled_from(["a", "b", "", None]))
    if draw(st.booleans()):
        columns["reward/format"] = rows(reward)
    prompts = draw(
        st.none()
        | st.lists(
            st.sampled_from(["p", "q", None, 1, "1"]), min_size=len(sizes), max_size=len(sizes)
        )
    )
    steps = draw(st.lists(st.integers(-2, 3), min_size=len(sizes), max_size=len(sizes)))
    return Groups.from_nested(rows(rewards), prompt_id=prompts, step=steps, **columns)


def scorable(groups, column="reward"):
    """The finite values of each group, as lists."""
    values = groups.column(column)
    if values is None:
        return [[] for _ in range(len(groups))]
    parts = [values[a:b] for a, b in zip(groups.offsets[:-1], groups.offsets[1:], strict=True)]
    return [[float(v) for v in part if math.isfinite(v)] for part in parts]


def is_tied(values, atol=1e-6, rtol=1e-6):
    """The definition, in Python numbers."""
    if len(values) < 2:
        return False
    return max(values) - min(values) <= atol + rtol * max(abs(v) for v in values)


def same(left, right):
    """Equal up to rounding, where NaN equals NaN and tables equal tables."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if left is None or isinstance(left, str):
        return left == right
    return bool(np.allclose(left, right, rtol=1e-9, atol=1e-12, equal_nan=True))

"""Which columns are TRL's reward functions, with what weights, and which is correctness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import UsageError
from tests.logs.trl_queue import Queue, generation


def write(
    folder: Path,
    weights: dict[str, float],
    *,
    steps: int = 12,
    nulls: float = 0.0,
    state: bool = True,
    seed: int = 0,
    extra=None,
    change=None,
    **options,
) -> Path:
    """Write a run of groups of 4 with random components of three levels."""
    rng = np.random.default_rng(seed)
    queue = Queue(folder, 16, weights)
    for step in range(1, steps + 1):
        parts = {name: rng.integers(0, 3, 16) / 2 for name in weights}
        for values in parts.values():
            values[rng.random(16) < nulls] = np.nan
        some = extra(rng) if extra else None
        prompts = [f"{step}.{one}" for one in range(4)]
        rows = generation(prompts, 4, parts, weights, tag=f"{step}.", extra=some, **options)
        for row in rows if change else ():
            change(row)
        queue.generate(rows)
        queue.log(step)
    if state:
        queue.save(steps)
    return folder


def said(run) -> str:
    """Return what the report would say of the reward."""
    return next(one for one in run.source.inferred if one.startswith("reward"))


@settings(max_examples=40, deadline=None)
@given(
    weights=st.lists(
        st.sampled_from([0.1, 0.25, 0.5, 1.0, 2.0, 5.0, -0.5]), min_size=1, max_size=4
    ),
    nulls=st.sampled_from([0.0, 0.2]),
    state=st.booleans(),
    scale=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_reward_is_recovered(tmp_path_factory, weights, nulls, state, scale, seed):
    named = {f"f{at}": weight for at, weight in enumerate(weights)}
    folder = tmp_path_factory.mktemp("run")
    options = {"nulls": nulls, "state": state, "scale": scale, "seed": seed}
    groups = bt.read(write(folder, named, **options)).groups
    parts = np.stack([groups.column(f"reward/{name}") for name in named])
    unknown = np.isnan(parts).all(axis=0)
    true = np.where(unknown, np.nan, (np.nan_to_num(parts).T @ weights))
    if state:
        np.testing.assert_allclose(groups.rewards, true, atol=2e-3 * max(map(abs, weights)))
        return
    known = np.isfinite(true)
    factor = np.polyfit(true[known], groups.rewards[known], 1)[0] if len(weights) > 1 else 1.0
    assert factor > 0 or len(weights) == 1
    if len(weights) > 1:
        np.testing.assert_allclose(groups.rewards, true * factor, atol=1e-2 * abs(factor) * 5)
    np.testing.assert_array_equal(np.isnan(groups.rewards), unknown)


def test_weights_of_one_are_confirmed(tmp_path):
    run = bt.read(write(tmp_path, {"a": 1.0, "b": 1.0}))
    assert said(run) == "reward: a + b, with weights of 1, which the log confirms"


def test_advantages_of_another_kind_leave_the_weights_to_the_logged_means(tmp_path):
    def scramble(row):
        row["advantage"] = float(hash(row["completion"]) % 7 - 3)

    run = bt.read(write(tmp_path / "a", {"a": 1.0, "b": 0.5}, change=scramble))
    assert "1 a + 0.5 b" in said(run)
    run = bt.read(write(tmp_path / "b", {"a": 1.0, "b": 0.5}, change=scramble, state=False))
    assert "weights unknown" in said(run)
    parts = [run.groups.column(f"reward/{name}") for name in "ab"]
    np.testing.assert_allclose(run.groups.rewards, parts[0] + parts[1])


def test_no_signal_confirms_nothing(tmp_path):
    def tie(row):
        row |= {"a": 1.0, "b": 0.5, "advantage": 0.0}

    run = bt.read(write(tmp_path, {"a": 1.0, "b": 0.5}, change=tie, state=False))
    assert "nothing in the log confirms" in said(run)
    assert bt.collapse_rate(run.groups) == 1.0


@pytest.mark.parametrize("state", [True, False])
def test_an_extra_column_of_numbers_is_no_reward(tmp_path, state):
    def extra(rng):
        return {"confidence": rng.random(16).tolist(), "tokens": rng.integers(0, 9, 16).tolist()}

    for name, weights in (("one", {"a": 1.0, "b": 1.0}), ("other", {"a": 1.0, "b": 0.5})):
        run = bt.read(write(tmp_path / name, weights, extra=extra, state=state))
        found = [name for name in run.groups.columns if name.startswith("reward/")]
        assert found == ["reward/a", "reward/b"]
        true = run.groups.column("reward/a") + weights["b"] * run.groups.column("reward/b")
        np.testing.assert_allclose(run.groups.rewards, true, atol=2e-3)


def test_a_mapped_reward(tmp_path):
    def extra(rng):
        return {"mine": rng.random(16).tolist()}

    folder = write(tmp_path, {"a": 1.0}, extra=extra)
    run = bt.read(folder, map={"reward": "mine", "reward/b": "mine", "correct": "a"})
    assert set(run.groups.rewards) == set(run.groups.column("reward/b"))
    assert set(run.groups.column("correct")) == {0.0, 0.5, 1.0}
    with pytest.raises(UsageError, match="nine"):
        bt.read(folder, map={"reward": "nine"})
    ignored = bt.read(folder, map={"step": "mine"})
    assert "the trainer's own column" in ignored.problems[0].message


@pytest.mark.parametrize(
    ("name", "correct"),
    [
        ("accuracy_reward", True),
        ("correctness", True),
        ("exact_match", True),
        ("math_verify_func", True),
        ("is_solved", True),
        ("reward_em", True),
        ("format_reward", False),
        ("correct_format", False),
        ("brevity", False),
        ("memory", False),
        ("reward", False),
    ],
)
def test_correctness_by_name(tmp_path, name, correct):
    run = bt.read(write(tmp_path, {"style": 1.0, name: 1.0}, steps=2))
    assert ("correct" in run.groups.columns) == correct
    if correct:
        np.testing.assert_array_equal(
            run.groups.columns["correct"], run.groups.columns[f"reward/{name}"]
        )


def test_correctness_needs_values_between_zero_and_one(tmp_path):
    def double(row):
        row["accuracy"] *= 4

    run = bt.read(write(tmp_path, {"accuracy": 1.0}, change=double, state=False))
    assert "correct" not in run.groups.columns

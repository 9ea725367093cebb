"""TRL's completions: real dumps, and a model of its queue as the oracle."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import collapse_rate
from buttress.groups import Run, check_grouping
from buttress.logs.builder import RolloutBuilder
from buttress.logs.frameworks.trl import TrlCompletions
from buttress.logs.reader import ReadOptions
from tests.logs.trl_queue import Queue, generation

DATA = Path(__file__).parent / "data"


def read(folder: Path, **options) -> Run:
    """Read every completions file below a folder."""
    files = sorted(folder.rglob("*.parquet"))
    builder = RolloutBuilder(ReadOptions(**options))
    TrlCompletions().read(files, builder, builder.options)
    return builder.finish("trl", files)


def without_state(name: str, tmp_path: Path) -> Path:
    """Return a copy of a fixture without its trainer state."""
    shutil.copytree(DATA / name / "completions", tmp_path / name / "completions")
    return tmp_path / name


def said(run: Run, part: str) -> bool:
    """Return whether the report would say this."""
    return any(part in sentence for sentence in run.source.inferred)


@pytest.fixture(params=["with state", "alone"])
def fixture(request, tmp_path):
    """Return the folder of a fixture, with and without its trainer state."""

    def folder(name: str) -> Path:
        return DATA / name if request.param == "with state" else without_state(name, tmp_path)

    return folder


def test_a_plain_run(fixture):
    run = read(fixture("trl_plain"))
    assert (len(run.groups), set(run.groups.sizes)) == (12, {4})
    assert run.groups.step.tolist() == [step for step in range(1, 7) for _ in range(2)]
    assert run.facts.grouped_by == "position"
    assert run.facts.group_size == 4
    assert (run.facts.repeated, run.facts.logged_every, run.problems) == (0, None, ())
    assert check_grouping(run.groups, run.facts) == []
    assert said(run, "1 accuracy_reward + 0.25 brevity_reward")
    parts = [run.groups.columns[f"reward/{name}_reward"] for name in ("accuracy", "brevity")]
    np.testing.assert_allclose(run.groups.rewards, parts[0] + 0.25 * parts[1])
    np.testing.assert_array_equal(run.groups.columns["correct"], parts[0])


def test_advantages_follow_from_the_recovered_reward(fixture):
    for name in ("trl_plain", "trl_null_rewards", "trl_rewritten"):
        groups = read(fixture(name)).groups
        grouped = groups.rewards.reshape(-1, 4)
        deviation = np.nanstd(grouped, axis=1, ddof=1, keepdims=True)
        expected = (grouped - np.nanmean(grouped, axis=1, keepdims=True)) / (deviation + 1e-4)
        logged = groups.columns["advantage"].reshape(-1, 4)
        np.testing.assert_allclose(logged, np.nan_to_num(expected), atol=2e-3)


def test_with_logging_steps_of_two_half_of_the_generations_are_lost(fixture):
    run = read(fixture("trl_every_second"))
    assert run.groups.step.tolist() == [2, 2, 4, 4, 6, 6]
    assert run.facts.logged_every == 2
    assert said(run, "once in 2 steps")


def test_a_generation_that_several_steps_reuse_counts_once(fixture):
    run = read(fixture("trl_rewritten"))
    assert run.groups.step.tolist() == [1] * 4 + [3] * 4 + [5] * 4
    assert run.facts.repeated == 48
    assert run.facts.logged_every is None


def test_a_constant_reward_that_float32_cannot_hold_is_tied(fixture):
    run = read(fixture("trl_constant"))
    assert run.groups.sizes.tolist() == [8, 8]
    assert collapse_rate(run.groups) == 1.0
    assert np.abs(run.groups.columns["advantage"]).max() > 1e-3
    if run.scalars:
        assert run.scalar("frac_reward_zero_std").value.tolist() == [0.0, 0.0]


def test_none_is_unscorable_and_a_partial_none_is_not(fixture):
    run = read(fixture("trl_null_rewards"))
    parts = [run.groups.columns[f"reward/sparse_{name}_reward"] for name in ("accuracy", "brevity")]
    both = np.isnan(parts[0]) & np.isnan(parts[1])
    assert both.any()
    assert (np.isnan(parts[1]) & ~both).any()
    np.testing.assert_array_equal(np.isnan(run.groups.rewards), both)
    assert said(run, "1 sparse_accuracy_reward + 0.5 sparse_brevity_reward")
    assert "reward/digits" not in run.groups.columns


def test_chat_messages_come_back_as_text(fixture):
    run = read(fixture("trl_null_rewards"))
    assert run.texts([4, 0]) == [("9+0=", "s+=2s"), ("10+1=", "ys")]


def test_rollouts_of_evaluations_are_left_out(fixture):
    run = read(fixture("trl_evaluated"))
    assert run.groups.step.tolist() == [1] * 4 + [3] * 3 + [5] * 4
    assert said(run, "8 rollouts of evaluations")
    assert "90+0=" not in {text.prompt for text in run.texts(range(run.groups.n_samples))}


def test_metrics_come_from_the_state_beside_the_completions():
    run = read(DATA / "trl_plain")
    assert run.scalar("loss").step.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.scalar("completions/clipped_ratio") is not None
    assert said(run, "checkpoint-6")


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(2, 5),
    n_prompts=st.integers(1, 4),
    reuse=st.integers(1, 3),
    logging_steps=st.integers(1, 3),
    evaluate_every=st.sampled_from([0, 2, 3]),
    eval_rows=st.integers(1, 7),
    state=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_survives_in_the_queue_is_read_once(
    tmp_path_factory, size, n_prompts, reuse, logging_steps, evaluate_every, eval_rows, state, seed
):
    folder, rng = tmp_path_factory.mktemp("run"), np.random.default_rng(seed)
    weights = {"accuracy": 1.0, "style": 0.5}
    queue = Queue(folder, size * n_prompts, weights, logging_steps)
    expected: dict[str, int] = {}
    evaluate_every = evaluate_every if state and eval_rows < queue.length else 0

    def make(prompts: list[str], n: int, tag: str) -> list[dict]:
        levels = {name: rng.integers(0, 3, len(prompts) * n) / 2 for name in weights}
        return generation(prompts, n, levels, weights, tag=tag)

    for step in range(1, 13):
        if (step - 1) % reuse == 0:
            rows = make([f"p{step}.{one}" for one in range(n_prompts)], size, f"t{step}.")
            queue.generate(rows)
        if step % logging_steps == 0:
            queue.log(step)
        if evaluate_every and step % evaluate_every == 0:
            queue.evaluate(step, make([f"e{one}" for one in range(eval_rows)], 1, f"e{step}."))
        if (folder / "completions" / f"completions_{step:05d}.parquet").exists():
            left = [row["completion"] for row in queue.rows if row["completion"][0] == "t"]
            expected |= dict.fromkeys(left[len(left) % size :] if evaluate_every else left, step)
    if state:
        queue.save(12)
    run = read(folder, group_size=size)
    found = run.texts(range(run.groups.n_samples)) if run.texts else []
    got = [text.completion for text in found]
    assert len(set(got)) == len(got)
    assert not [one for one in got if one[0] == "e"]
    if not run.facts.unreadable:
        assert set(got) == set(expected)

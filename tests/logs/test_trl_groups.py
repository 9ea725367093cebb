"""Which rows TRL compared: the size of its groups, and what an extra column says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from tests.logs.trl_queue import Queue, generation

WEIGHTS = {"score": 1.0}


def write(folder: Path, prompts: list[list[str]], size: int, seed: int = 0, **options) -> Path:
    """Write one file per list of prompts, with random rewards of three levels."""
    rng = np.random.default_rng(seed)
    queue = Queue(folder, len(prompts[0]) * size, WEIGHTS)
    for step, some in enumerate(prompts, 1):
        scores = {"score": rng.integers(0, 3, len(some) * size) / 2}
        queue.generate(generation(some, size, scores, WEIGHTS, tag=f"{step}.", **options))
        queue.log(step)
    return folder


def rewrite(path: Path, change) -> None:
    """Change one file."""
    change(pl.read_parquet(path)).write_parquet(path)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_a_prompt_drawn_twice_in_a_row_is_two_groups(tmp_path, size, scale):
    run = bt.read(write(tmp_path, [["p", "p"]] * 9, size, scale=scale))
    assert set(run.groups.sizes) == {size}
    assert len(run.groups) == 18


def test_without_a_signal_the_runs_of_equal_prompts_decide(tmp_path):
    folder = write(tmp_path, [["p", "q"], ["r", "s"]], 4)
    for path in folder.rglob("*.parquet"):
        rewrite(path, lambda frame: frame.with_columns(score=1.0, advantage=0.0))
    run = bt.read(folder)
    assert set(run.groups.sizes) == {4}
    assert bt.collapse_rate(run.groups) == 1.0


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(2, 6),
    steps=st.lists(
        st.lists(st.sampled_from("pqr"), min_size=3, max_size=3), min_size=6, max_size=9
    ),
    seed=st.integers(0, 99),
)
def test_the_size_is_found_whatever_prompts_follow_each_other(tmp_path_factory, size, steps, seed):
    run = bt.read(write(tmp_path_factory.mktemp("run"), steps, size, seed))
    runs = [len(list(one)) for step in steps for one in _runs(step)]
    if np.gcd.reduce(runs) == 1:
        assert run.facts.group_size == size
    assert run.facts.group_size % size == 0


def _runs(step: list[str]):
    border = [at for at in range(1, len(step)) if step[at] != step[at - 1]]
    return np.split(np.array(step), border)


def test_the_option_wins(tmp_path):
    run = bt.read(write(tmp_path, [["p", "q"]] * 3, 4), group_size=2)
    assert set(run.groups.sizes) == {2}


def test_interleaved_rows_are_refused_and_not_guessed(tmp_path):
    folder = write(tmp_path, [["p", "q"]] * 4, 4)
    for path in folder.rglob("*.parquet"):
        rewrite(path, lambda frame: frame[[0, 4, 1, 5, 2, 6, 3, 7]])
    for options in ({}, {"group_size": 4}):
        found = bt.diagnose(bt.read(folder, **options))
        assert found.findings[0].rule == "broken-grouping"
        assert found.verdict == "undefined"


def test_an_extra_column_names_the_groups(tmp_path):
    extra = {
        "buttress_group": list("xyxyyxyx"),
        "buttress_length": [5, 6, 7, 8, 9, 1, 2, 3],
        "buttress_truncated": [True, False] * 4,
    }
    run = bt.read(write(tmp_path, [["p", "p"]] * 2, 4, extra=extra))
    assert run.facts.grouped_by == "key"
    assert run.groups.group_id.tolist() == ["x", "y"] * 2
    assert run.groups.column("length")[:4].tolist() == [5, 7, 1, 3]
    assert run.groups.column("truncated")[:4].tolist() == [1, 1, 0, 0]
    assert [name for name in run.groups.columns if name.startswith("reward/")] == ["reward/score"]


def test_a_mapped_group_column(tmp_path):
    folder = write(tmp_path, [["p", "q"]], 4, extra={"mine": [1, 1, 2, 2, 3, 3, 4, 4]})
    assert bt.read(folder, map={"group": "mine"}).groups.sizes.tolist() == [2] * 4


def test_two_runs_in_one_read_keep_their_groups_apart(tmp_path):
    write(tmp_path / "a", [["p", "q"]] * 4, 4)
    write(tmp_path / "b", [["p", "q"]] * 4, 2, seed=5)
    run = bt.read(tmp_path)
    assert sorted(run.groups.sizes.tolist()) == [2] * 8 + [4] * 8


def test_a_torn_last_group_stays(tmp_path):
    folder = write(tmp_path, [["p", "q", "r"]] * 9, 4)
    path = max(folder.rglob("*.parquet"))
    rewrite(path, lambda frame: frame.head(11))
    assert bt.read(folder).groups.sizes.tolist()[-3:] == [4, 4, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.drop("step"), "step 2"),
        (lambda f: f.drop("completion"), "completion"),
        (lambda f: f.with_columns(step=pl.lit("two")), "step 2"),
        (lambda f: f.with_columns(advantage=pl.lit("much")), "advantage"),
        (lambda f: f.with_columns(advantage=pl.lit([1.0])), "advantage"),
        (lambda f: f.with_columns(score=pl.struct(a="score")), "score"),
        (lambda f: f.with_columns(score=pl.when(pl.col("score") > 0).then(pl.lit("x"))), "score"),
    ],
)
def test_a_damaged_column_is_named_and_the_rest_is_read(tmp_path, change, said):
    folder = write(tmp_path, [["p", "q"]] * 3, 4)
    rewrite(folder / "completions" / "completions_00002.parquet", change)
    run = bt.read(folder)
    assert {1, 3} <= set(run.groups.step.tolist())
    assert any(said in problem.message for problem in run.problems)
    assert {Path(problem.file).name for problem in run.problems} == {"completions_00002.parquet"}


def test_a_file_without_rows(tmp_path):
    folder = write(tmp_path, [["p", "q"]] * 3, 4)
    rewrite(folder / "completions" / "completions_00002.parquet", lambda frame: frame.clear())
    assert set(bt.read(folder).groups.step.tolist()) == {1, 3}


def test_one_file_for_all_steps(tmp_path):
    folder = write(tmp_path / "run", [["p", "q"], ["r", "s"], ["t", "u"]], 4)
    frame = pl.concat(pl.read_parquet(path) for path in sorted(folder.rglob("*.parquet")))
    frame.write_parquet(tmp_path / "all.parquet")
    run = bt.read(tmp_path / "all.parquet")
    assert run.source.format == "trl"
    assert run.groups.step.tolist() == [1, 1, 2, 2, 3, 3]
    assert run.texts([8])[0].completion == "2.0"


def test_a_generation_that_fills_the_logging_interval_is_not_lost(tmp_path):
    for logging_steps, lost in ((2, None), (1, None), (4, 4)):
        folder = tmp_path / str(logging_steps)
        queue, rng = Queue(folder, 8, WEIGHTS, logging_steps), np.random.default_rng(0)
        for step in range(1, 13):
            if step % 2:
                scores = {"score": rng.integers(0, 3, 8) / 2}
                queue.generate(generation(["p", "q"], 4, scores, WEIGHTS, tag=f"{step}."))
            queue.log(step)
        queue.save(12)
        assert bt.read(folder).facts.logged_every == lost

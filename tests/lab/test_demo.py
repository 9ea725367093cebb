"""The demo end to end in a few steps, and the directories that it may and may not touch."""

import json

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.errors import MissingExtraError, UsageError
from buttress.lab import demo
from buttress.lab.tasks import LatentSkill
from tests.helpers import require

STEPS = 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    require("trl")
    out = tmp_path_factory.mktemp("demo") / "out"
    return out, demo.run_demo(out, steps=STEPS, seed=5, progress=False)


def _completions(out, remedy, step):
    return pl.read_parquet(out / remedy / "completions" / f"completions_{step:05d}.parquet")


@pytest.mark.trl
def test_it_returns_runs_of_equal_cost(finished):
    out, done = finished
    assert [run.remedy for run in done.runs] == list(demo.REMEDIES)
    assert done.rollouts == STEPS * 64
    before = {run.greedy_before for run in done.runs}
    assert len(before) == 1
    assert before.pop() < 0.02
    assert 0 < max(run.seconds for run in done.runs) < done.seconds
    for run in done.runs:
        assert run.directory == out / run.remedy
        assert run.remedy in done.sentence()


@pytest.mark.trl
def test_summary_says_what_happened(finished):
    out, done = finished
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["steps"] == STEPS
    assert summary["seed"] == 5
    assert summary["version"] == bt.__version__
    assert set(summary["packages"]) == {"torch", "trl", "transformers"}
    assert [run["directory"] for run in summary["runs"]] == list(demo.REMEDIES)
    assert summary["runs"][1]["greedy_after"] == done.runs[1].greedy_after


@pytest.mark.trl
@pytest.mark.parametrize("remedy", demo.REMEDIES)
def test_every_rollout_is_logged_with_the_advantage_of_the_remedy(finished, remedy):
    out, _ = finished
    files = sorted(path.name for path in (out / remedy / "completions").iterdir())
    assert files == [f"completions_{step:05d}.parquet" for step in range(1, STEPS + 1)]
    task, estimator, groups = LatentSkill(), bt.estimator(remedy), np.repeat(np.arange(8), 8)
    for step in range(1, STEPS + 1):
        table = _completions(out, remedy, step)
        assert table["step"].to_list() == [step] * 64
        prompts = table["prompt"].to_list()
        assert prompts == [prompt for prompt in prompts[::8] for _ in range(8)]
        assert len(set(prompts)) == 8
        rewards = [task.verify(*row) for row in table.select("prompt", "completion").iter_rows()]
        assert table["correct"].to_list() == rewards
        expected = estimator(bt.Groups.from_flat(np.array(rewards), groups))
        np.testing.assert_allclose(table["advantage"], expected, atol=1e-5)


@pytest.mark.trl
@pytest.mark.parametrize("remedy", demo.REMEDIES)
def test_the_run_reads_back_without_a_problem(finished, remedy):
    out, _ = finished
    run = bt.read(out / remedy)
    assert run.problems == ()
    assert len(run.groups) == STEPS * 8
    assert set(run.groups.sizes) == {8}
    assert run.groups.step.tolist() == [step for step in (1, 2, 3) for _ in range(8)]
    assert {"correct", "advantage"} <= set(run.groups.columns)
    assert run.scalar("buttress/acr").step.tolist() == [1, 2, 3]


@pytest.mark.trl
def test_all_start_from_the_same_weights_problems_and_seed(finished):
    out, _ = finished
    columns = ["prompt", "completion"]
    tables = [_completions(out, remedy, 1).select(columns) for remedy in demo.REMEDIES]
    assert all(tables[0].equals(table) for table in tables[1:])


@pytest.mark.trl
@pytest.mark.parametrize("remedy", demo.REMEDIES)
def test_trainer_state_has_the_scalars_of_every_step(finished, remedy):
    out, _ = finished
    state = json.loads((out / remedy / "trainer_state.json").read_text(encoding="utf-8"))
    rows = [entry for entry in state["log_history"] if "reward" in entry]
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["buttress/fallback"] == 0
        assert row["completions/clipped_ratio"] == 0
        # rewards of 0 and 1 are exact in float32, so that TRL's own counter is right here
        assert row["buttress/acr"] == row["frac_reward_zero_std"]


def test_another_demo_replaces_what_an_earlier_one_left(tmp_path):
    out = demo._prepared(tmp_path / "deep" / "out")
    stale = out / "grpo" / "completions" / "completions_00099.parquet"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"stale")
    (out / demo.SUMMARY).write_text("{}")
    (out / "avspo.html").write_text("stale")
    (out / "grpo.log").write_text("stale")
    (out / "notes.txt").write_text("mine")
    assert demo._prepared(out) == out
    assert sorted(path.name for path in out.iterdir()) == [demo.MARK, "notes.txt"]


def test_a_directory_of_someone_else_is_left_alone(tmp_path):
    kept = tmp_path / "grpo" / "weights"
    kept.parent.mkdir()
    kept.write_text("precious")
    with pytest.raises(UsageError, match="no demo made it; choose another directory"):
        demo._prepared(tmp_path)
    assert kept.read_text() == "precious"
    with pytest.raises(UsageError, match="is a file"):
        demo._prepared(kept)
    with pytest.raises(UsageError, match="cannot write to"):
        demo._prepared(kept / "below")


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seed": -1}, {"seed": 2**32}])
def test_a_wrong_call_leaves_no_trace(tmp_path, wrong):
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be"):
        demo.run_demo(tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_without_trl_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "trl" else object())
    with pytest.raises(MissingExtraError, match=r"pip install 'buttress\[trl\]'"):
        demo.run_demo(tmp_path / "out")
    assert not (tmp_path / "out").exists()

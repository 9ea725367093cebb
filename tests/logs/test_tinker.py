"""tinker-cookbook's rollout summaries, written to its schema."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from tests.logs import frameworks
from tests.logs.frameworks import TABLE, summary_rows, summary_step
from tests.logs.writing import jsonl, write

NAME = "iteration_000001/train_rollout_summaries.jsonl"


def dump(folder, iteration: int = 1, table=TABLE, base: str = "train", **more):
    path = folder / f"iteration_{iteration:06d}" / f"{base}_rollout_summaries.jsonl"
    split = "train" if base == "train" else base.replace("_", "/", 1)
    return write(path, summary_rows(table, iteration, split, **more))


class TestSummaries:
    def test_columns(self, tmp_path):
        for iteration in (0, 1):
            dump(tmp_path, iteration)
        run = bt.read(tmp_path)
        groups = run.groups
        assert (run.source.format, run.problems, run.facts.grouped_by) == ("tinker", (), "key")
        assert groups.step.tolist() == [0, 0, 1, 1]
        assert groups.group_id.tolist() == [0, 1, 0, 1]
        assert groups.rewards.tolist() == [0, 1, 0, 1, 1, 1, 1, 1] * 2
        assert groups.columns["correct"].tolist() == groups.rewards.tolist()
        assert groups.columns["reward/format"].tolist() == [1] * 16
        assert groups.columns["length"].tolist() == [10, 11, 12, 13] * 4
        assert groups.columns["sample"].tolist() == [0, 1, 2, 3] * 4
        assert not groups.has_prompts
        assert np.isnan(groups.column("truncated")).all()
        assert not any("folders" in one for one in run.source.inferred)

    def test_several_steps(self, tmp_path):
        steps = [summary_step(0.0, 1, correct=0.0), summary_step(1.0, 2, correct=1.0, turns=2)]
        dump(tmp_path, steps=steps)
        groups = bt.read(tmp_path).groups
        assert set(groups.columns["length"].tolist()) == {11 + 12}
        assert set(groups.columns["correct"].tolist()) == {1.0}
        assert "reward/turns" not in groups.columns

    def test_evaluations_stay_out(self, tmp_path):
        dump(tmp_path)
        dump(tmp_path, base="eval_gsm8k")
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 8
        assert [one.message[:27] for one in run.problems] == ["rollouts of evaluations (1 "]
        alone = bt.read(tmp_path / "iteration_000001/eval_gsm8k_rollout_summaries.jsonl")
        assert alone.groups.n_samples == 8

    def test_truncated_by_the_cap_of_the_configuration(self, tmp_path):
        dump(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps({"max_tokens": 12}))
        run = bt.read(tmp_path)
        assert run.groups.columns["truncated"].tolist() == [0, 0, 1, 1] * 2
        assert run.problems == ()

    def test_truncated_by_what_the_environment_says(self, tmp_path):
        dump(tmp_path, steps=[summary_step(1.0, 0, **{"stop/max_tokens": 1.0})])
        # it may say so of those that it stopped and of no other: a share of them means nothing
        assert np.isnan(bt.read(tmp_path).groups.column("truncated")).all()
        (tmp_path / "config.json").write_text(json.dumps({"max_tokens": 1000}))
        assert set(bt.read(tmp_path).groups.columns["truncated"].tolist()) == {1.0}

    @pytest.mark.parametrize(
        ("config", "filtered"),
        [
            ({"remove_constant_reward_groups": True, "async_config": {"a": 1}}, True),
            ({"remove_constant_reward_groups": True, "stream_minibatch_config": {"a": 1}}, True),
            ({"remove_constant_reward_groups": True, "async_config": None}, False),
            ({"remove_constant_reward_groups": False, "async_config": {"a": 1}}, False),
            ({}, False),
            ([], False),
        ],
    )
    def test_removed_groups(self, tmp_path, config, filtered):
        dump(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps(config))
        run = bt.read(tmp_path)
        assert run.facts.filtered == filtered
        assert (bt.diagnose(run).measures["acr"] is None) == filtered

    def test_metrics_beside(self, tmp_path):
        dump(tmp_path)
        write(tmp_path / "metrics.jsonl", [{"step": 1, "progress/done_frac": 0.5, "optim/lr": 0.1}])
        (tmp_path / "iteration_000001/train_logtree.json").write_text("{}")
        run = bt.read(tmp_path)
        assert run.problems == ()
        assert "optim/lr" in run.scalars

    def test_recognised(self, tmp_path):
        frameworks.refuses_others("tinker", tmp_path)

    def test_the_command(self, tmp_path, capsys):
        for iteration in range(3):
            dump(tmp_path, iteration)
        found = frameworks.diagnosed(capsys, tmp_path)
        assert (found["source"]["format"], found["source"]["rollouts"]) == ("tinker", 24)
        assert found["measures"]["acr"] == 0.5
        assert found["measures"]["acr_by_reward"]["correct"] == 0.5


class TestDamage:
    def test_a_file_may_end_anywhere(self, tmp_path):
        def check(part: bytes) -> None:
            run = frameworks.survives(tmp_path, NAME, part)
            if run is not None:
                assert run.groups.n_samples >= part.count(b"\n")

        frameworks.every_cut(jsonl(summary_rows()), check)

    def test_a_truncated_last_line(self, tmp_path):
        run = frameworks.survives(tmp_path, NAME, jsonl(summary_rows())[:-20])
        assert run.groups.n_samples == 7
        assert [(one.line, one.message[:24]) for one in run.problems] == [
            (8, "the last line is cut off")
        ]

    @pytest.mark.parametrize(
        ("change", "samples", "message"),
        [
            ({"total_reward": "good"}, 8, "reward is not a number: 'good'"),
            ({"total_reward": 10**400}, 8, "beyond the range of a float"),
            ({"total_reward": 1e999}, 8, "reward is infinite"),
            ({"total_reward": None}, 8, None),
            ({"total_reward": float("nan")}, 8, None),
            ({"iteration": "soon"}, 8, "step is not a number"),
            ({"steps": "none"}, 7, "not a rollout summary"),
            ({"steps": None}, 8, None),
            ({"steps": []}, 8, None),
            ({"steps": [{"ac_len": "x", "metrics": None}]}, 8, None),
            ({"steps": [{"metrics": {"correct": "yes"}}]}, 8, None),
            ({"trajectory_metrics": None}, 8, None),
            ({"group_idx": None}, 8, None),
            ({"group_idx": None, "total_reward": None}, 7, "without a group or a reward"),
        ],
    )
    def test_wrong_values(self, tmp_path, change, samples, message):
        rows = summary_rows()
        rows[2] |= change
        run = bt.read(write(tmp_path / NAME, rows))
        assert run.groups.n_samples == samples
        if message:
            assert (3, True) in [(one.line, message in one.message) for one in run.problems]
        bt.diagnose(run)

    @pytest.mark.parametrize("name", sorted(summary_rows()[0]))
    def test_missing_columns(self, tmp_path, name):
        rows = summary_rows()
        for row in rows[4:]:
            del row[name]
        run = bt.read(write(tmp_path / NAME, rows))
        assert run.groups.n_samples == 8
        bt.diagnose(run)

    @pytest.mark.parametrize("text", ["", "\n", "[]", "{}", "nonsense"])
    def test_nothing_in_it(self, tmp_path, text):
        assert frameworks.survives(tmp_path, NAME, text.encode()) is None

    @pytest.mark.parametrize("text", ["", "{", "\xff", "[]", '{"max_tokens": "x"}'])
    def test_a_configuration_that_is_none(self, tmp_path, text):
        dump(tmp_path)
        (tmp_path / "config.json").write_text(text, encoding="latin-1")
        assert bt.read(tmp_path).groups.n_samples == 8

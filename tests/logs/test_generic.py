"""JSONL with the rollout table's columns, aliases and maps; metrics wide and long."""

from __future__ import annotations

import numpy as np
import pytest

import buttress as bt
from buttress.logs.columns import ALIASES
from buttress.logs.generic import is_rollout
from buttress.logs.trackers.metric_files import is_metrics
from tests.logs.writing import rollouts, write

FULL = {
    "step": 3,
    "group": "g",
    "sample": 1,
    "prompt_id": "p7",
    "prompt": "1+1?",
    "completion": "2",
    "reward": 0.5,
    "reward/format": 1.0,
    "correct": True,
    "advantage": -1.5,
    "length": 12,
    "truncated": False,
}


class TestColumns:
    def test_every_canonical_column(self, tmp_path):
        other = FULL | {"sample": 0, "completion": "3", "reward": None, "truncated": None}
        run = bt.read(write(tmp_path / "a.jsonl", [FULL, other]))
        groups = run.groups
        assert (run.problems, run.source.inferred) == ((), ())
        assert (run.source.format, run.facts.grouped_by) == ("generic", "key")
        assert groups.group_id.tolist() == ["g"]
        assert groups.prompt_id.tolist() == ["p7"]
        assert groups.step.tolist() == [3]
        # inside a group by sample
        np.testing.assert_array_equal(groups.rewards, [np.nan, 0.5])
        expected = {
            "row": [2, 1],
            "file": [0, 0],
            "sample": [0, 1],
            "correct": [1, 1],
            "advantage": [-1.5, -1.5],
            "length": [12, 12],
            "truncated": [np.nan, 0],
            "reward/format": [1, 1],
            "prompt": [0, 0],
        }
        for name, values in expected.items():
            np.testing.assert_array_equal(groups.columns[name], values, err_msg=name)
        assert len(set(groups.columns["completion"].tolist())) == 2
        assert run.texts([1]) == [("1+1?", "2")]

    def test_absent_columns_are_absent(self, tmp_path):
        run = bt.read(write(tmp_path / "a.jsonl", [{"group": 1, "reward": at} for at in range(2)]))
        assert set(run.groups.columns) == {"file", "row"}
        assert run.groups.step.tolist() == [0]
        assert run.texts([0]) == [("", "")]

    @pytest.mark.parametrize(
        ("name", "alias"), [(name, alias) for name, some in ALIASES.items() for alias in some]
    )
    def test_every_alias_is_used_and_said(self, tmp_path, name, alias):
        rows = [
            {alias if key == name else key: value for key, value in (FULL | {"sample": at}).items()}
            for at in range(2)
        ]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        plain = bt.read(write(tmp_path / "b.jsonl", [FULL | {"sample": at} for at in range(2)]))
        assert run.source.inferred == (f"{name}: read from the column {alias}",)
        assert run.groups.rewards.tolist() == plain.groups.rewards.tolist()
        assert run.groups.group_id.tolist() == plain.groups.group_id.tolist()
        assert run.groups.prompt_id.tolist() == plain.groups.prompt_id.tolist()
        assert run.groups.step.tolist() == plain.groups.step.tolist()
        for column, values in plain.groups.columns.items():
            np.testing.assert_array_equal(run.groups.columns[column], values, err_msg=column)

    def test_the_canonical_name_wins_over_an_alias(self, tmp_path):
        run = bt.read(write(tmp_path / "a.jsonl", [{"group": "a", "score": 1, "reward": 0}] * 2))
        assert run.groups.rewards.tolist() == [0, 0]

    def test_the_map_wins_over_both(self, tmp_path):
        rows = [{"gruppe": "a", "reward": 0, "score": 1, "punkte": 2, "form": 1} for _ in range(2)]
        path = write(tmp_path / "a.jsonl", rows)
        given = {"reward": "punkte", "group": "gruppe", "reward/form": "form"}
        run = bt.read(path, map=given)
        assert run.groups.rewards.tolist() == [2, 2]
        assert run.groups.group_id.tolist() == ["a"]
        assert run.groups.columns["reward/form"].tolist() == [1, 1]
        assert run.source.inferred == ()

    def test_a_map_makes_rollouts_of_unknown_columns(self, tmp_path):
        rows = [{"id": 3, "step": 1, "punkte": at} for at in range(4)]
        run = bt.read(write(tmp_path / "a.jsonl", rows), map={"reward": "punkte", "group": "id"})
        assert run.groups.sizes.tolist() == [4]

    def test_a_map_holds_for_verl_too(self, tmp_path):
        row = {"input": "p", "output": "c", "score": 1.0, "step": 1, "mine": 0.25}
        run = bt.read(write(tmp_path / "1.jsonl", [row] * 2), map={"reward": "mine"})
        assert (run.source.format, run.groups.rewards.tolist()) == ("verl", [0.25, 0.25])

    def test_components_without_a_total(self, tmp_path):
        rows = [
            {"group": "a", "reward/x": 1, "reward/y": value} for value in (0.5, None, float("nan"))
        ]
        rows.append({"group": "a", "reward/x": None, "reward/y": None})
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        np.testing.assert_array_equal(run.groups.rewards, [1.5, 1, 1, np.nan])
        assert "reward: the sum of the components" in run.source.inferred[0]

    @pytest.mark.parametrize(
        ("name", "step"),
        [("step_12.jsonl", 12), ("12.jsonl", 12), ("run7_step3.jsonl", 3), ("run7.jsonl", 0)],
    )
    def test_a_step_in_the_file_name(self, tmp_path, name, step):
        run = bt.read(write(tmp_path / name, [{"group": "a", "reward": 1}] * 2))
        assert run.groups.step.tolist() == [step]
        assert ("step: from the file name" in run.source.inferred) == (step > 0)

    def test_whole_numbers_as_floats_and_as_text(self, tmp_path):
        rows = [{"step": step, "group": 1, "reward": 1} for step in (2, 2.0, "2")]
        groups = bt.read(write(tmp_path / "a.jsonl", rows)).groups
        assert (groups.step.tolist(), groups.sizes.tolist()) == ([2], [3])


class TestMetrics:
    @pytest.mark.parametrize(
        ("row", "kind"),
        [
            ({"step": 1, "loss": 0.1}, "metrics"),
            (
                {"step": 1, "loss": 0.0, "reward": 0.4, "reward_std": 0.5},
                "metrics",
            ),
            ({"train/global_step": 1, "train/kl": 0.1}, "metrics"),
            ({"step": 1, "name": "loss", "value": 0.1}, "metrics"),
            ({"step": 1, "time": 3.5}, "metrics"),
            ({"step": 1, "frac_reward_zero_std": 1.0, "num_tokens": 5}, "metrics"),
            ({"step": 1, "reward": 0.5}, "rollouts"),
            ({"group": "a", "reward": None}, "rollouts"),
            ({"prompt": "p", "completion": "c", "score": 1, "kl": 0.1}, "rollouts"),
            ({"step": 1, "reward/format": 1}, "rollouts"),
            ({"group": "a", "correct": 1}, "rollouts"),
            ({"step": 1}, None),
            ({"prompt": "p", "completion": "c"}, None),
            ({"step": 1, "message": "text"}, None),
            ({"task": "gsm8k", "acc": 0.8}, None),
            ({"score": {"a": 1}}, None),
        ],
    )
    def test_told_apart(self, row, kind):
        found = {"rollouts": is_rollout(row), "metrics": is_metrics(row)}
        assert [name for name, yes in found.items() if yes] == ([kind] if kind else [])

    def test_wide(self, tmp_path):
        rows = [
            {"step": 1, "loss": 0.5, "kl": None, "note": "warm", "flag": True},
            {"step": 2, "loss": float("nan"), "kl": 0.25},
        ]
        run = bt.read(write(tmp_path / "metrics.jsonl", rows))
        assert len(run.groups) == 0
        assert run.problems == ()
        np.testing.assert_array_equal(run.scalars["loss"].value, [0.5, np.nan])
        np.testing.assert_array_equal(run.scalars["kl"].value, [np.nan, 0.25])
        assert run.scalars["flag"].value.tolist() == [1]
        assert "note" not in run.scalars

    def test_long(self, tmp_path):
        rows = [
            {"step": step, "name": name, "value": step}
            for name in ("loss", "reward_std")
            for step in (3, 1, 2)
        ]
        run = bt.read(write(tmp_path / "metrics.jsonl", rows))
        assert set(run.scalars) == {"loss", "reward_std"}
        assert run.scalars["loss"].step.tolist() == run.scalars["loss"].value.tolist() == [1, 2, 3]

    def test_the_names_of_trackers(self, tmp_path):
        row = {"train/global_step": 7, "train/loss": 1, "eval/reward": 2, "step": 700}
        run = bt.read(write(tmp_path / "metrics.jsonl", [row]))
        assert run.scalars["loss"].value.tolist() == [1]
        assert run.scalars["eval/reward"].step.tolist() == [700]

    def test_the_progress_of_swift(self, tmp_path):
        row = {"loss": 0.5, "reward": 1.0, "global_step/max_steps": "3/200"}
        run = bt.read(write(tmp_path / "logging.jsonl", [row]))
        assert run.scalars["loss"].step.tolist() == [3]

    def test_beside_rollouts(self, tmp_path):
        write(tmp_path / "rollouts.jsonl", rollouts({"a": [0, 1]}))
        write(tmp_path / "metrics.jsonl", [{"step": 1, "loss": 0.5, "reward": 0.5}])
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 2
        assert run.scalars["reward"].value.tolist() == [0.5]
        assert run.problems == ()

    def test_broken_lines(self, tmp_path):
        path = tmp_path / "metrics.jsonl"
        lines = [
            '{"step": 1, "loss": 1}',
            "[]",
            "x",
            '{"loss": 2}',
            '{"step": 2, "loss": 3}',
            '{"s',
        ]
        path.write_text("\n".join(lines))
        run = bt.read(path)
        assert run.scalars["loss"].value.tolist() == [1, 3]
        assert [one.line for one in run.problems] == [2, 3, 4, 6]

    def test_huge_and_odd_values(self, tmp_path):
        rows = [
            {"step": 1, "loss": 10**400, "kl": [1]},
            {"step": 1e9, "loss": 1},
        ]
        run = bt.read(write(tmp_path / "metrics.jsonl", rows))
        assert run.scalars["loss"].step.tolist() == [10**9]
        assert "kl" not in run.scalars

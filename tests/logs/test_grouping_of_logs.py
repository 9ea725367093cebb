"""Which rows are a group, whatever the log names, and which rows stand twice."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest

import buttress as bt
from buttress.groups import check_grouping
from buttress.logs.builder import Coded, RolloutBuilder
from buttress.logs.reader import ReadOptions
from tests.logs.writing import rollouts, verl_row, write


def without(rows, *names):
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def found(run) -> list[str]:
    return [finding.rule for finding in bt.diagnose(run).findings]


class TestByWhat:
    rows = rollouts({"a": [0, 1, 1], "b": [1, 1]}) + rollouts({"a": [1, 0], "c": [0, 0]}, step=2)

    def test_by_id_within_a_step(self, tmp_path):
        run = bt.read(write(tmp_path / "a.jsonl", self.rows))
        assert run.groups.group_id.tolist() == ["a", "b", "a", "c"]
        assert run.groups.sizes.tolist() == [3, 2, 2, 2]
        assert run.facts.grouped_by == "key"
        assert run.source.inferred == ()

    def test_by_prompt(self, tmp_path):
        run = bt.read(write(tmp_path / "a.jsonl", without(self.rows, "group")))
        assert run.groups.sizes.tolist() == [3, 2, 2, 2]
        assert run.facts.grouped_by == "prompt"
        assert run.source.inferred[-1].startswith("groups: rows of one step and one prompt")
        assert run.groups.prompt_id[0] == run.groups.prompt_id[2] != run.groups.prompt_id[1]

    def test_by_prompt_id(self, tmp_path):
        rows = [row | {"prompt_id": row["prompt"][-1]} for row in without(self.rows, "group")]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.groups.prompt_id.tolist() == ["a", "b", "a", "c"]
        assert "prompt_id" in run.source.inferred[-1]

    def test_by_position(self, tmp_path):
        rows = [{"step": step, "reward": at} for step in (2, 1) for at in range(10)]
        run = bt.read(write(tmp_path / "a.jsonl", rows), group_size=4)
        assert run.groups.step.tolist() == [1, 1, 1, 2, 2, 2]
        assert run.groups.sizes.tolist() == [4, 4, 2] * 2
        assert run.groups.rewards.tolist() == [*range(10)] * 2
        assert (run.facts.grouped_by, run.facts.group_size) == ("position", 4)
        assert "every 4 consecutive rows" in run.source.inferred[-1]
        assert run.problems == ()

    def test_position_never_crosses_files(self, tmp_path):
        for name in "ab":
            write(tmp_path / f"{name}.jsonl", [{"step": 1, "reward": at} for at in range(6)])
        assert bt.read(tmp_path, group_size=4).groups.sizes.tolist() == [4, 2, 4, 2]

    def test_an_id_wins_over_the_group_size(self, tmp_path):
        run = bt.read(write(tmp_path / "a.jsonl", self.rows), group_size=2)
        assert run.groups.sizes.tolist() == [3, 2, 2, 2]
        assert (run.facts.grouped_by, run.facts.group_size) == ("key", 2)
        (problem,) = run.problems
        assert "the group size 2 was not used to form groups" in problem.message

    def test_nothing_to_group_by(self, tmp_path):
        path = write(tmp_path / "a.jsonl", [{"step": 1, "reward": at % 2} for at in range(8)])
        run = bt.read(path)
        assert "--group-size" in run.problems[0].message
        assert np.isnan(bt.collapse_rate(run.groups))
        assert found(run)[0] == "broken-grouping"
        assert bt.diagnose(run).verdict == "undefined"

    def test_rows_without_an_id_among_others(self, tmp_path):
        rows = rollouts({"a": [0, 1], "b": [1, 1]})
        for row in rows[2:]:
            row["group"] = None
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.groups.sizes.tolist() == [2, 2]
        assert len(run.source.inferred) == 1

    def test_whole_numbers_stay_a_counter(self, tmp_path):
        rows = [{"group": at // 2, "reward": 1} for at in range(8)]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.groups.group_id.tolist() == [0, 1, 2, 3]
        assert run.groups.group_id.dtype.kind == "i"

    @pytest.mark.parametrize("seed", range(4))
    def test_no_order_of_rows_or_files_matters(self, tmp_path, seed):
        rng = random.Random(seed)
        rows = [
            row
            for step in range(1, 6)
            for row in rollouts({name: [rng.random() for _ in range(4)] for name in "abcd"}, step)
        ]
        runs = []
        for name in ("plain", "shuffled"):
            for at in range(3):
                write(tmp_path / name / f"{at}.jsonl", rows[at::3])
            runs.append(bt.read(tmp_path / name))
            rng.shuffle(rows)

        def as_set(run):
            parts = np.split(run.groups.rewards, run.groups.offsets[1:-1])
            ids = zip(run.groups.step.tolist(), run.groups.group_id.tolist(), strict=True)
            return {one: part.tolist() for one, part in zip(ids, parts, strict=True)}

        assert as_set(runs[0]) == as_set(runs[1])
        assert [bt.diagnose(run).measures for run in runs[:1]] == [
            bt.diagnose(run).measures for run in runs[1:]
        ]


class TestCases:
    def test_a7_four_ids_of_one_prompt(self, tmp_path):
        rows = [
            {"group": str(at), "prompt": "p", "completion": str(at), "reward": at % 2 == 0}
            for at in range(4)
        ]
        diagnosis = bt.diagnose(bt.read(write(tmp_path / "a.jsonl", rows)))
        assert diagnosis.findings[0].rule == "broken-grouping"
        assert diagnosis.measures["acr"] is None
        assert diagnosis.verdict == "undefined"

    def interleaved(self, tmp_path, *names):
        rows = [
            {"step": step, "group": f"p{at % 2}", "prompt": f"p{at % 2}", "reward": 1 - at % 2}
            for step in range(1, 5)
            for at in range(8)
        ]
        return write(tmp_path / "a.jsonl", without(rows, *names))

    @pytest.mark.parametrize("names", [(), ("group",), ("prompt",)])
    def test_a8_grouped_by_key(self, tmp_path, names):
        run = bt.read(self.interleaved(tmp_path, *names))
        assert bt.collapse_rate(run.groups) == 1

    def test_a8_positions_alone_are_refused(self, tmp_path):
        run = bt.read(self.interleaved(tmp_path, "group"), group_size=4)
        (problem,) = check_grouping(run.groups, run.facts)
        assert (problem.kind, problem.fatal) == ("interleaved_rows", True)
        diagnosis = bt.diagnose(run)
        assert diagnosis.measures["acr"] is None
        assert diagnosis.findings[0].rule == "broken-grouping"

    def test_a9_null_rewards(self, tmp_path):
        rows = rollouts({"a": [None, -1, -1, None], "b": [None] * 4})
        measures = bt.diagnose(bt.read(write(tmp_path / "a.jsonl", rows))).measures
        assert measures["acr"] == 1
        assert measures["groups"]["unscorable"] == 1
        assert measures["rollouts"]["unscorable"] == 6

    def test_a14_filtered(self, tmp_path):
        rng = random.Random(3)
        for step in range(1, 41):
            groups = [
                [1] * ones + [0] * (8 - ones)
                for ones in (rng.choice([0, 0, 1, 3, 5, 7, 8]) for _ in range(16))
            ]
            kept = {f"{step}/{at}": one for at, one in enumerate(groups) if 0 < sum(one) < 8}
            write(tmp_path / f"{step}.jsonl", rollouts(kept, step))
        diagnosis = bt.diagnose(bt.read(tmp_path))
        assert "filtered-log" in [one.rule for one in diagnosis.findings]
        assert diagnosis.measures["acr"] is None


STEPS = {step: rollouts({f"{step}{name}": [0, 1, 1, 0] for name in "ab"}, step) for step in (1, 2)}


class TestRepeats:
    def test_a_file_that_was_copied(self, tmp_path):
        for step, rows in STEPS.items():
            write(tmp_path / f"{step}.jsonl", rows)
        shutil.copy(tmp_path / "2.jsonl", tmp_path / "2_copy.jsonl")
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 16
        assert run.facts.repeated == 8
        assert "more than once" in " ".join(run.source.inferred)

    def test_a_resumed_run_that_wrote_a_step_again(self, tmp_path):
        rows = STEPS[1] + STEPS[2] + STEPS[1]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert (run.groups.n_samples, run.facts.repeated) == (16, 8)

    def test_the_same_step_sampled_anew_is_no_repeat(self, tmp_path):
        again = [row | {"completion": row["completion"] + "!"} for row in STEPS[2]]
        run = bt.read(write(tmp_path / "a.jsonl", STEPS[2] + STEPS[1] + again))
        assert (run.groups.n_samples, run.facts.repeated) == (24, 0)

    @pytest.mark.parametrize("text", ["same", None])
    def test_equal_completions_are_a_finding_and_stay(self, tmp_path, text):
        for rank in (0, 1):
            rows = [verl_row("p", text, 1, step=1) for _ in range(4)]
            write(tmp_path / f"{rank}.jsonl", rows)
        run = bt.read(tmp_path)
        assert (run.groups.n_samples, run.facts.repeated) == (8, 0)

    def test_shards_of_ranks_stay(self, tmp_path):
        for rank in range(4):
            write(tmp_path / f"{rank}.jsonl", [verl_row("p", f"c{rank}{at}", 1) for at in range(2)])
        run = bt.read(tmp_path)
        assert (run.groups.sizes.tolist(), run.facts.repeated) == ([8], 0)


class TestBuilder:
    def test_chunks_that_lack_columns(self):
        builder = RolloutBuilder()
        file = builder.open("memory")
        builder.add(file, [1, 2], {"group": ["a", "a"], "reward": [1, 0], "length": [3, 4]})
        builder.add(file, [3, 4], {"group": ["a", "b"], "reward": np.array([1, 1])})
        builder.add(file, [], {"reward": []})
        groups = builder.finish("memory").groups
        assert groups.sizes.tolist() == [3, 1]
        np.testing.assert_array_equal(groups.columns["length"], [3, 4, np.nan, np.nan])

    def test_codes_and_texts_meet(self):
        builder = RolloutBuilder()
        file = builder.open("memory")
        builder.add(file, [1, 2], {"prompt": ["p", "q"], "reward": [1, 0]})
        coded = Coded(np.array([0, 1, -1]), ["q", "p"])
        builder.add(file, [3, 4, 5], {"prompt": coded, "reward": [1, 0, 1]})
        groups = builder.finish("memory").groups
        assert groups.columns["prompt"].tolist() == [0, 0, 1, 1, -1]
        assert groups.sizes.tolist() == [2, 2, 1]

    def test_a_step_for_all_rows(self):
        builder = RolloutBuilder(ReadOptions(group_size=2))
        builder.add(builder.open("a"), [1, 2], {"step": 7, "reward": [1, 0]})
        builder.add(builder.open("b"), [1, 2], {"step": np.int64(8), "reward": [1, 0]})
        assert builder.finish("memory").groups.step.tolist() == [7, 8]

    def test_nothing_at_all(self):
        run = RolloutBuilder().finish("memory")
        assert (len(run.groups), run.texts, run.problems) == (0, None, ())

    def test_bytes_per_rollout(self):
        builder = RolloutBuilder()
        file, n_rows = builder.open("memory"), 100_000
        numbers = np.arange(n_rows, dtype=float)
        columns = dict.fromkeys(("reward", "correct", "length", "truncated"), numbers)
        keys = Coded(np.arange(n_rows) // 8, [str(at) for at in range(n_rows // 8)])
        columns |= {"group": keys, "completion": np.arange(n_rows), "step": np.arange(n_rows)}
        builder.add(file, np.arange(n_rows), columns)
        groups = builder.finish("memory").groups
        held = sum(one.nbytes for one in groups.columns.values())
        held += groups.rewards.nbytes + groups.order.nbytes
        assert held / n_rows <= 100


def test_diagnosis_of_files_is_that_of_the_same_groups(tmp_path):
    rng = random.Random(0)
    rewards = {str(at): [rng.choice([0, 1]) for _ in range(4)] for at in range(40)}
    run = bt.read(write(tmp_path / "a.jsonl", rollouts(rewards)))
    direct = bt.Groups.from_nested(list(rewards.values()))
    assert bt.collapse_rate(run.groups) == bt.collapse_rate(direct)
    assert bt.composition(run.groups) == bt.composition(direct)
    assert json.loads(bt.diagnose(run).to_json())["source"]["rollouts"] == 160

"""open-instruct's rollout shards, written to its schema."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from tests.logs import frameworks
from tests.logs.frameworks import shard_rows
from tests.logs.writing import jsonl, write

SHARD = "run_rollouts_000000.jsonl"
MIXED = {"a": [10.0, 0.0, 0.0, 10.0], "b": [0.0, 10.0, 0.0, 0.0]}


def read(tmp_path, *rows: dict) -> bt.Run:
    return bt.read(write(tmp_path / SHARD, rows))


class TestShards:
    def test_columns(self, tmp_path):
        run = read(tmp_path, *shard_rows(step=1), *shard_rows(step=2))
        groups = run.groups
        assert (run.source.format, run.problems, run.facts.grouped_by) == (
            "open-instruct",
            (),
            "key",
        )
        assert groups.step.tolist() == [1, 1, 2, 2]
        assert groups.group_id.tolist() == [0, 1, 0, 1]
        assert groups.rewards.tolist() == [0, 1, 0, 1, 1, 1, 1, 1] * 2
        assert groups.columns["length"].tolist() == [3, 4, 5, 6] * 4
        assert groups.columns["truncated"].tolist() == [0, 0, 0, 1] * 4
        assert groups.columns["advantage"].tolist() == [0.5] * 16
        assert groups.columns["sample"].tolist() == [*range(8)] * 2
        assert "correct" not in groups.columns

    def test_a_prompt_is_the_same_at_another_step(self, tmp_path):
        groups = read(tmp_path, *shard_rows(step=1), *shard_rows(step=2)).groups
        assert groups.prompt.tolist() == [0, 1, 0, 1]

    def test_spaces_and_nan_do_not_make_another_prompt(self, tmp_path):
        rows = shard_rows(MIXED, step=1) + shard_rows(MIXED, step=2)
        for row in rows[::2]:
            row["logprobs"] = [float("nan")]
        lines = [
            json.dumps(row, separators=(",", ":") if at % 3 else None)
            for at, row in enumerate(rows)
        ]
        path = tmp_path / SHARD
        path.write_text("\n".join(lines) + "\n")
        run = bt.read(path)
        assert run.problems == ()
        assert run.groups.prompt.tolist() == [0, 1, 0, 1]
        codes = run.groups.columns["completion"]
        # step 1 and 2 have other tokens; in a step the fourth of each group is one text
        assert len(set(codes.tolist())) == 8

    def test_a_prompt_in_two_places_of_a_batch_is_two_groups(self, tmp_path):
        rows = shard_rows(MIXED)
        for row in rows:
            row["prompt_tokens"] = [1, 2]
        groups = read(tmp_path, *rows).groups
        assert groups.sizes.tolist() == [4, 4]
        assert groups.prompt.tolist() == [0, 0]

    def test_a_step_that_was_saved_again(self, tmp_path):
        run = read(tmp_path, *shard_rows(MIXED), *shard_rows(MIXED, response_tokens=[5]))
        assert run.groups.sizes.tolist() == [4] * 4
        assert any("saved more than once" in one for one in run.source.inferred)

    def test_shards_and_metadata(self, tmp_path):
        write(tmp_path / SHARD, shard_rows(step=1))
        write(tmp_path / SHARD.replace("0.", "1."), shard_rows(step=2))
        metadata = {"run_name": "run", "git_commit": "1", "model_name": "m", "timestamp": "t"}
        write(tmp_path / "run_metadata.jsonl", [metadata])
        run = bt.read(tmp_path)
        assert (run.groups.n_samples, run.problems) == (16, ())

    def test_recognised(self, tmp_path):
        frameworks.refuses_others("open-instruct", tmp_path)


class TestFilter:
    def test_a_dump_without_a_tie_was_filtered(self, tmp_path, capsys):
        write(tmp_path / SHARD, shard_rows(MIXED))
        found = frameworks.diagnosed(capsys, tmp_path)
        assert found["measures"]["acr"] is None
        assert "filtered" in found["measures"]["acr_undefined"]
        assert found["findings"][0]["rule"] == "filtered-log"
        assert bt.read(tmp_path).facts.filtered

    def test_one_tie_shows_that_it_was_not(self, tmp_path):
        run = read(tmp_path, *shard_rows(MIXED, step=1), *shard_rows(step=2))
        assert not run.facts.filtered
        assert bt.diagnose(run).measures["acr"] == 0.25

    def test_a_tie_that_the_filter_does_not_see_proves_nothing(self, tmp_path):
        # np.std of these is 1.4e-17, so that open-instruct keeps the group
        tied = {"a": [0.1] * 3}
        assert np.std([0.1] * 3) > 0
        assert read(tmp_path, *shard_rows(tied)).facts.filtered

    @pytest.mark.parametrize("rewards", [[None, None], [float("nan")] * 2, [1.0]])
    def test_groups_that_tell_nothing(self, tmp_path, rewards):
        run = read(tmp_path, *shard_rows({"a": rewards}))
        assert np.isnan(run.groups.rewards).sum() == (len(rewards) if len(rewards) > 1 else 0)
        bt.diagnose(run)


class TestDamage:
    def test_a_file_may_end_anywhere(self, tmp_path):
        def check(part: bytes) -> None:
            run = frameworks.survives(tmp_path, SHARD, part)
            if run is not None:
                assert run.groups.n_samples == max(part.count(b"\n"), run.groups.n_samples)

        frameworks.every_cut(jsonl(shard_rows()), check)

    def test_a_truncated_last_line(self, tmp_path):
        run = frameworks.survives(tmp_path, SHARD, jsonl(shard_rows(MIXED))[:-20])
        assert run.groups.n_samples == 7
        assert [(one.line, one.message[:24]) for one in run.problems] == [
            (8, "the last line is cut off")
        ]
        assert run.facts.unreadable == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"reward": "good"}, "reward is not a number: 'good'"),
            ({"reward": 10**400}, "beyond the range of a float"),
            ({"reward": 1e999}, "reward is infinite"),
            ({"reward": [1]}, "reward is not a number: a list"),
            ({"advantage": "x"}, "advantage is not a number"),
            ({"step": "soon"}, "step is not a number"),
            ({"sample_idx": 1.5}, "sample is not a whole number"),
        ],
    )
    def test_wrong_values(self, tmp_path, change, message):
        rows = shard_rows(MIXED)
        rows[3] |= change
        run = read(tmp_path, *rows)
        assert run.groups.n_samples == 8
        assert (4, True) in [(one.line, message in one.message) for one in run.problems]
        bt.diagnose(run)

    @pytest.mark.parametrize(
        "name", ["step", "prompt_idx", "sample_idx", "prompt_tokens", "response_tokens", "reward"]
    )
    @pytest.mark.parametrize("how", ["absent", "null", "text", "list", "object"])
    def test_columns_of_any_kind(self, tmp_path, name, how):
        rows = shard_rows(MIXED)
        for row in rows[4:]:
            if how == "absent":
                del row[name]
            else:
                row[name] = {"null": None, "text": "x", "list": ["x"], "object": {"a": 1}}[how]
        run = read(tmp_path, *rows)
        assert run.groups.n_samples == 8
        bt.diagnose(run)

    def test_other_lines(self, tmp_path):
        run = read(tmp_path, *shard_rows(MIXED), {"event": "end"})
        assert run.groups.n_samples == 8
        assert [one.line for one in run.problems] == [9]

    @pytest.mark.parametrize("text", ["", "\n", "[]", "nonsense"])
    def test_nothing_in_it(self, tmp_path, text):
        assert frameworks.survives(tmp_path, SHARD, text.encode()) is None

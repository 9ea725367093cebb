"""verl's dumps in both layouts, and its metrics file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from tests.logs.writing import verl_row, write

DATA = Path(__file__).parent / "data"


def by_hand(folder: str, key) -> list[tuple[int, list[float]]]:
    """Return step and scores of each group, read in the plainest way."""
    groups: dict = {}
    for path in sorted((DATA / folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            groups.setdefault((row["step"], key(row)), []).append(row["score"])
    return sorted((step, scores) for (step, _), scores in groups.items())


def as_read(run) -> list[tuple[int, list[float]]]:
    groups = run.groups
    parts = np.split(groups.rewards, groups.offsets[1:-1])
    pairs = zip(groups.step.tolist(), parts, strict=True)
    return sorted((step, part.tolist()) for step, part in pairs)


class TestLegacy:
    def test_fixture(self):
        run = bt.read(DATA / "verl_legacy")
        assert run.source.format == "verl"
        assert run.problems == ()
        assert run.facts.grouped_by == "prompt"
        assert as_read(run) == by_hand("verl_legacy", lambda row: row["input"])
        assert run.groups.columns["correct"].tolist() == (run.groups.rewards > 0).tolist()
        assert any("one step and one prompt" in one for one in run.source.inferred)
        assert "correct: read from the column acc" in run.source.inferred

    def test_texts_come_back(self):
        run = bt.read(DATA / "verl_legacy")
        rows = [
            json.loads(line)
            for step in (1, 2, 3)
            for line in (DATA / f"verl_legacy/{step}.jsonl").read_text("utf-8").splitlines()
        ]
        order = np.argsort(run.groups.order)
        texts = run.texts(order.tolist())
        assert [one.prompt for one in texts] == [row["input"] for row in rows]
        assert [one.completion for one in texts] == [row["output"] for row in rows]
        assert run.texts([5, 5, 0])[0] == run.texts([5])[0]

    def test_extra_keys(self, tmp_path):
        extra = {
            "acc": 0.5,
            "pred": "4",
            "format_reward": 1,
            "num_turns": 3,
            "response_length": 17,
            "tool_calls": [1, 2],
            "truncated": True,
            "advantage": -0.5,
        }
        write(tmp_path / "1.jsonl", [verl_row("p", str(at), at % 2, **extra) for at in range(4)])
        columns = bt.read(tmp_path).groups.columns
        expected = {
            "correct": 0.5,
            "reward/format_reward": 1.0,
            "length": 17.0,
            "truncated": 1.0,
            "advantage": -0.5,
        }
        given = {name: set(columns[name].tolist()) for name in expected}
        assert given == {name: {value} for name, value in expected.items()}
        assert set(columns) - set(expected) == {"file", "row", "prompt", "completion"}

    def test_a_step_that_only_the_file_name_has(self, tmp_path):
        for step in (9, 10):
            write(tmp_path / f"{step}.jsonl", [verl_row("p", "c", 1, step=None)] * 2)
        assert bt.read(tmp_path).groups.step.tolist() == [9, 10]

    @pytest.mark.parametrize("returned", [{"pred": "4"}, {}])
    def test_score_without_the_overlong_penalty(self, tmp_path, returned):
        rows = [
            verl_row("p", str(at), 1.0, acc=True, overlong_reward=-0.25 * at, overlong=at > 0)
            | returned
            for at in range(4)
        ]
        write(tmp_path / "1.jsonl", rows)
        run = bt.read(tmp_path)
        # only a reward function that returned a dict overwrites the score that verl dumps
        expected = [1.0, 0.75, 0.5, 0.25] if returned else [1.0] * 4
        assert run.groups.rewards.tolist() == expected
        assert any("overlong" in one for one in run.source.inferred) == bool(returned)

    def test_validation_dumps_stay_out(self, tmp_path):
        write(tmp_path / "rollouts" / "5.jsonl", [verl_row("p", str(at), 1) for at in range(4)])
        write(tmp_path / "val" / "5.jsonl", [verl_row("q", "c", 1)])
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 4
        assert "validations" in run.problems[0].message
        assert bt.read(tmp_path / "val").groups.n_samples == 1


class TestV1:
    def test_fixture(self):
        run = bt.read(DATA / "verl_v1")
        assert (run.source.format, run.problems, run.facts.grouped_by) == ("verl", (), "key")
        assert run.source.inferred == ()
        assert as_read(run) == by_hand("verl_v1", lambda row: row["uid"].rsplit("_", 2)[0])
        assert run.groups.columns["sample"].tolist() == [0, 1, 2, 3] * len(run.groups)
        first = json.loads((DATA / "verl_v1" / "1.jsonl").read_text("utf-8").splitlines()[0])
        assert run.groups.group_id[0] == first["uid"].rsplit("_", 2)[0]

    def test_one_prompt_drawn_twice_stays_two_groups(self, tmp_path):
        rows = [
            verl_row("p", f"{uid}{at}", 1, uid=f"{uid}_{at}_0") for uid in "ab" for at in range(4)
        ]
        write(tmp_path / "1.jsonl", rows)
        groups = bt.read(tmp_path).groups
        assert groups.sizes.tolist() == [4, 4]
        assert len(set(groups.prompt_id)) == 1

    @pytest.mark.parametrize("uid", ["u", "long_0_uid", "id-9"])
    def test_sessions_of_two_digits_and_ids_of_any_length(self, tmp_path, uid):
        rows = [
            verl_row("p", str(at), at % 2, uid=f"{one}_{at}_0")
            for one in (uid, uid * 2)
            for at in range(12)
        ]
        write(tmp_path / "1.jsonl", rows)
        groups = bt.read(tmp_path).groups
        assert groups.group_id.tolist() == [uid, uid * 2]
        assert groups.columns["sample"].tolist() == [*range(12)] * 2

    def test_ids_without_session(self, tmp_path):
        rows = [verl_row("p", str(at), 1, uid=uid) for at, uid in enumerate(["a", "a", None, "b"])]
        write(tmp_path / "1.jsonl", rows)
        groups = bt.read(tmp_path).groups
        # a row without an id falls back to its prompt
        assert sorted(groups.sizes.tolist()) == [1, 1, 2]
        assert set(groups.columns["sample"].tolist()) == {-1}

    def test_several_outputs_of_a_session_are_seen(self, tmp_path):
        rows = [
            verl_row("p", f"{session}{output}", 1, uid=f"u_{session}_{output}")
            for session in range(4)
            for output in range(3)
        ]
        write(tmp_path / "1.jsonl", rows)
        run = bt.read(tmp_path)
        kinds = [one.kind for one in bt.groups.check_grouping(run.groups, run.facts)]
        assert kinds == ["fan_out"]


class TestMetrics:
    def test_named_as_in_trl(self, tmp_path):
        write(tmp_path / "dump" / "1.jsonl", [verl_row("p", str(at), 1) for at in range(4)])
        logged = {
            "actor/pg_loss": 0.5,
            "actor/grad_norm": 0.0,
            "response_length/clip_ratio": 1.0,
            "critic/score/mean": None,
            "note": "text",
        }
        write(tmp_path / "log.jsonl", [{"step": step, "data": logged} for step in (1, 2)])
        run = bt.read(tmp_path)
        assert run.problems == ()
        assert run.groups.n_samples == 4
        for name in ("actor/pg_loss", "loss"):
            assert run.scalars[name].step.tolist() == [1, 2]
            assert run.scalars[name].value.tolist() == [0.5, 0.5]
        assert run.scalars["grad_norm"].value.tolist() == [0, 0]
        assert run.scalars["completions/clipped_ratio"].value.tolist() == [1, 1]
        assert np.isnan(run.scalars["reward"].value).all()
        assert "note" not in run.scalars

    def test_a_step_logged_again_keeps_the_last_value(self, tmp_path):
        rows = [
            {"step": step, "data": {"actor/lr": value}} for step, value in [(1, 5), (2, 6), (1, 7)]
        ]
        write(tmp_path / "log.jsonl", rows)
        found = bt.read(tmp_path / "log.jsonl").scalars["learning_rate"]
        assert (found.step.tolist(), found.value.tolist()) == ([1, 2], [7, 6])

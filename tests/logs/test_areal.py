"""AReaL's task files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from tests.logs.dumps import GROUPS, areal, areal_row
from tests.logs.writing import write


def read_rows(tmp_path, *rows: dict):
    return bt.read(write(tmp_path / "rollout" / "1" / "0.jsonl", rows))


def test_columns(tmp_path):
    for step in (0, 1):
        areal(tmp_path, step=step)
    run = bt.read(tmp_path)
    groups = run.groups
    assert (run.source.format, run.problems, run.facts.grouped_by) == ("areal", (), "key")
    assert groups.step.tolist() == [0] * 3 + [1] * 3
    assert groups.group_id.tolist() == ["task 0", "task 1", "task 2"] * 2
    assert groups.rewards.tolist() == [one for some in GROUPS.values() for one in some] * 2
    assert groups.columns["length"].tolist() == [2, 3, 4, 5] * 6
    assert groups.columns["sample"].tolist() == [0, 1, 2, 3] * 6
    assert "truncated" not in groups.columns
    assert run.texts([1]) == [("prompt 0", "answer 1 at 0")]
    assert not any("folders" in one for one in run.source.inferred)
    assert any(one.startswith("step: the version") for one in run.source.inferred)


def test_a_task_number_given_out_again_is_another_group(tmp_path):
    again = [areal_row(0, at, 0, 1, prompt="another") for at in (1, 2, 3)]
    run = read_rows(tmp_path, *[areal_row(0, at, 1) for at in (0, 2, 3)], *again)
    assert run.groups.group_id.tolist() == ["task 0", "task 0 (2)"]
    assert run.groups.rewards.tolist() == [1, 1, 1, 0, 0, 0]
    (problem,) = run.problems
    assert "start again" in problem.message


def test_task_numbers_start_again_across_blocks_of_a_file(tmp_path, monkeypatch):
    from buttress.logs import files

    monkeypatch.setattr(files, "CHUNK", 300)
    rows = [areal_row(0, at, turn, 1) for turn in range(3) for at in range(8)]
    run = read_rows(tmp_path, *rows)
    assert run.groups.sizes.tolist() == [8, 8, 8]
    assert run.groups.rewards.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_missing_samples_are_no_second_group(tmp_path):
    run = read_rows(tmp_path, *[areal_row(0, at, 1) for at in (0, 2, 5)])
    assert (run.groups.sizes.tolist(), run.problems) == ([3], ())


def test_holes_in_the_numbers_of_tasks_are_no_sign_of_a_filter(tmp_path):
    for step in range(6):
        tasks = {10 * step + at: [0, 1, 1, 1] for at in range(4)}
        areal(tmp_path, tasks, step)
    diagnosis = bt.diagnose(bt.read(tmp_path))
    assert not any(one.evidence.get("missing") for one in diagnosis.findings)


def test_evaluations_stay_out(tmp_path):
    areal(tmp_path)
    path = write(tmp_path / "eval-rollout" / "1" / "77.jsonl", [areal_row(77, 0, 1)])
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 12
    assert "evaluations, left out" in run.problems[0].message
    assert bt.read(path.parent.parent).groups.n_samples == 1


@pytest.mark.parametrize("reward", [None, float("nan")])
def test_null_rewards(tmp_path, reward):
    run = read_rows(tmp_path, areal_row(0, 0, reward), areal_row(0, 1, 1))
    np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1])
    assert run.problems == ()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"reward": "good"}, "reward"),
        ({"reward": 10**400}, "reward"),
        ({"reward": 1e999}, "reward"),
        ({"sample_idx": "x"}, "sample"),
        ({"tail_version": 1.5}, "step"),
        ({"seqlen": "x"}, ""),
        ({"prompt_len": None}, ""),
        ({"task_id": [1]}, ""),
        ({"task_id": "one"}, ""),
    ],
)
def test_wrong_values(tmp_path, changes, word):
    rows = [areal_row(0, at, at % 2) for at in range(4)]
    run = read_rows(tmp_path, *rows, areal_row(0, 4, 1) | changes)
    assert run.groups.n_samples == 5
    if word:
        assert [one.line for one in run.problems] == [5]
        assert word in run.problems[0].message


@pytest.mark.parametrize("column", ["seqlen", "prompt_len", "sample_idx", "tail_version", "prompt"])
def test_missing_columns(tmp_path, column):
    rows = [areal_row(0, at, 1) for at in range(4)]
    for row in rows:
        del row[column]
    run = bt.read(write(tmp_path / "0.jsonl", rows), format="areal")
    assert run.groups.sizes.tolist() == [4]


def test_damage(tmp_path):
    path = areal(tmp_path) / "rollout" / "1" / "0.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{", "[1]", *lines[1:3], lines[3][:-9]]))
    run = bt.read(tmp_path)
    assert run.groups.sizes.tolist() == [3, 4, 4]
    assert [(one.file, one.line) for one in run.problems] == [(str(path), at) for at in (2, 3, 6)]
    assert run.facts.unreadable == 3


def test_an_empty_file(tmp_path):
    areal(tmp_path)
    (tmp_path / "rollout" / "1" / "9.jsonl").touch()
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 12
    assert "empty" in run.problems[0].message
    with pytest.raises(InputError, match="empty"):
        bt.read(tmp_path / "rollout" / "1" / "9.jsonl")


def test_through_the_command_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(areal(tmp_path)), "--json", "--fail-on", "never"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert (told["source"]["format"], told["source"]["group_sizes"]) == ("areal", {"4": 3})
    assert told["measures"]["acr"] == pytest.approx(1 / 3)

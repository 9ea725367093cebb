"""SkyRL's dumped evaluations and their metrics."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from tests.logs.dumps import GROUPS, skyrl, skyrl_row
from tests.logs.writing import write

EVALS = "dumped_evals/global_step_5_evals"


def read_rows(tmp_path, *rows: dict):
    return bt.read(write(tmp_path / EVALS / "openai_gsm8k.jsonl", rows))


def test_columns(tmp_path):
    for step in (9, 10):
        skyrl(tmp_path, step=step)
    run = bt.read(tmp_path)
    groups = run.groups
    assert (run.source.format, run.facts.grouped_by) == ("skyrl", "prompt")
    assert groups.step.tolist() == [9] * 3 + [10] * 3
    assert groups.rewards.tolist() == [one for some in GROUPS.values() for one in some] * 2
    assert groups.columns["truncated"].tolist() == [0, 0, 1, 0] * 6
    assert run.texts([6]) == [("prompt 1", "answer 2")]
    assert groups.prompt_id.tolist()[:3] == groups.prompt_id.tolist()[3:]


def test_that_prompts_stand_for_groups_is_a_problem(tmp_path):
    for step in (9, 10):
        skyrl(tmp_path, step=step)
    (problem,) = bt.read(tmp_path).problems
    assert "names no groups" in problem.message


def test_metrics_have_the_step_of_their_folder(tmp_path):
    for step in (9, 10):
        skyrl(tmp_path, step=step)
    run = bt.read(tmp_path)
    found = run.scalars["eval/all/avg_score"]
    assert (found.step.tolist(), found.value.tolist()) == ([9, 10], [0.25, 0.25])


def test_an_evaluation_without_training_is_step_0(tmp_path):
    path = tmp_path / "dumped_evals" / "eval_only" / "gsm8k.jsonl"
    run = bt.read(write(path, [skyrl_row(0, at, 1) for at in range(2)]))
    assert run.groups.step.tolist() == [0]


def test_one_prompt_in_two_data_sources_is_two_groups(tmp_path):
    for source in ("a/x", "b/x"):
        rows = [skyrl_row(0, at, 1, data_source=source) for at in range(4)]
        write(tmp_path / EVALS / f"{source.replace('/', '_')}.jsonl", rows)
    assert bt.read(tmp_path).groups.sizes.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("score", "reward", "problems"),
    [
        ([0.0, 0.25, 0.5], 0.75, 0),
        ([], np.nan, 0),
        ([0.5, None], np.nan, 1),
        (["x"], np.nan, 1),
        (None, np.nan, 0),
        (True, 1.0, 0),
        (float("nan"), np.nan, 0),
        ("1.5", 1.5, 1),
        ("good", np.nan, 1),
        ({"a": 1}, np.nan, 1),
        (10**400, np.nan, 1),
        (1e999, np.nan, 1),
    ],
)
def test_scores(tmp_path, score, reward, problems):
    run = read_rows(tmp_path, skyrl_row(0, 0, 1), skyrl_row(0, 1, score))
    np.testing.assert_array_equal(run.groups.rewards, [1, reward])
    placed = [one for one in run.problems if one.line]
    assert [one.line for one in placed] == [2] * problems


@pytest.mark.parametrize(
    "column", ["input_prompt", "stop_reason", "env_extras", "data_source", "output_response"]
)
def test_missing_columns(tmp_path, column):
    rows = [skyrl_row(0, at, at % 2) for at in range(4)]
    for row in rows[1:]:
        del row[column]
    run = read_rows(tmp_path, *rows)
    assert run.groups.n_samples == 4


def test_chat_messages_as_prompts(tmp_path):
    chat = [{"role": "user", "content": "q"}]
    run = read_rows(tmp_path, *[skyrl_row(0, at, 1, input_prompt=chat) for at in range(2)])
    assert run.groups.sizes.tolist() == [2]
    assert run.texts([0])[0].prompt == "q"


def test_damage(tmp_path):
    rows = [json.dumps(skyrl_row(0, at, 1)) for at in range(4)]
    path = tmp_path / EVALS / "x.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([*rows[:3], "[]", '{"a": 1}', "{", rows[3][:-20]]))
    run = bt.read(path)
    assert run.groups.n_samples == 3
    assert [one.line for one in run.problems if one.line] == [4, 5, 6, 7]
    assert run.facts.unreadable == 4


def test_damaged_metrics(tmp_path):
    skyrl(tmp_path, step=5)
    path = tmp_path / EVALS / "aggregated_results.jsonl"
    path.write_text('{"eval/all/avg_score": NaN}\n{"eval/all/avg')
    run = bt.read(tmp_path)
    assert np.isnan(run.scalars["eval/all/avg_score"].value).all()
    assert (str(path), 2) in [(one.file, one.line) for one in run.problems]


def test_an_empty_file(tmp_path):
    (tmp_path / "x.jsonl").touch()
    with pytest.raises(InputError, match="empty"):
        bt.read(tmp_path)


def test_through_the_command_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(skyrl(tmp_path)), "--json", "--fail-on", "never"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert (told["source"]["format"], told["source"]["group_sizes"]) == ("skyrl", {"4": 3})
    assert told["measures"]["acr"] == pytest.approx(1 / 3)
    assert "names no groups" in told["problems"][0]["message"]

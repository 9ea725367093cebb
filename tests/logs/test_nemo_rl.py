"""NeMo-RL's training data: batches of one, grouped by the tokens of their prompts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from tests.logs.dumps import GROUPS, nemo, nemo_row
from tests.logs.writing import write

REWARDS = [float(one) for some in GROUPS.values() for one in some]


def read_rows(tmp_path, *rows: dict):
    return bt.read(write(tmp_path / "train_data_step3.jsonl", rows))


def test_columns(tmp_path):
    for step in (9, 10):
        nemo(tmp_path, step=step)
    run = bt.read(tmp_path)
    groups = run.groups
    assert (run.source.format, run.problems, run.facts.grouped_by) == ("nemo-rl", (), "prompt")
    assert groups.step.tolist() == [9] * 3 + [10] * 3
    assert groups.rewards.tolist() == REWARDS * 2
    assert groups.columns["length"].tolist() == [2, 3, 2, 3] * 6
    assert groups.columns["advantage"].tolist() == [-0.5, 0, 0.5, 1] * 6
    assert run.texts([0, 3]) == [("prompt 0", "answer 0"), ("prompt 0", "answer 3")]
    # a prompt keeps its identity between steps
    assert groups.prompt_id.tolist()[:3] == groups.prompt_id.tolist()[3:]


def test_groups_are_told_by_tokens_and_not_by_text(tmp_path):
    same = {"content": [["same text", "answer"]]}
    rows = [nemo_row(prompt, at, at % 2, **same) for prompt in (0, 1) for at in range(4)]
    run = read_rows(tmp_path, *rows[::2], *rows[1::2])
    assert run.groups.sizes.tolist() == [4, 4]
    assert any("tokens of the prompt" in one for one in run.source.inferred)


def test_dynamic_sampling_is_a_filtered_log(tmp_path):
    # as written: `rewards` holds the rewards of the whole last batch, in another order and longer
    rows = [
        nemo_row(prompt, at, 0.0, filtered_rewards=[float(at % 2)], rewards=[0.25])
        for prompt in (0, 1)
        for at in range(4)
    ]
    beyond = {name: [] for name in rows[0] if name not in ("rewards", "idx")}
    run = read_rows(tmp_path, *rows, beyond | {"rewards": [0.0], "idx": 8})
    assert run.groups.rewards.tolist() == [0, 1] * 4
    assert run.facts.filtered
    (problem,) = run.problems
    assert problem.line == 9
    diagnosis = bt.diagnose(run)
    assert diagnosis.measures["acr"] is None
    assert "filtered-log" in [one.rule for one in diagnosis.findings]


def test_validations_stay_out(tmp_path):
    nemo(tmp_path)
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [{"content": [chat], "rewards": [1.0], "idx": at} for at in range(2)]
    path = write(tmp_path / "val_data_step1.jsonl", rows)
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 12
    assert (run.problems[0].file, run.problems[0].line) == (str(path), 0)
    alone = bt.read(path)
    assert (alone.source.format, alone.groups.rewards.tolist()) == ("nemo-rl", [1, 1])
    assert alone.texts([0]) == [("q", "a")]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ([["q", "a"]], ("q", "a")),
        ([["system", "q", "a"]], ("system\nq", "a")),
        (["a"], ("", "a")),
        ([None], ("", "")),
        ([[]], ("", "")),
    ],
)
def test_conversations(tmp_path, content, texts):
    run = read_rows(tmp_path, *[nemo_row(0, at, 1, content=content) for at in range(2)])
    assert run.texts([1]) == [texts]
    assert run.groups.sizes.tolist() == [2]


def test_advantages_that_differ_between_tokens_are_unknown(tmp_path):
    varied = [[0.0, 0.0, 0.5, -0.5, 0, 0, 0, 0]]
    run = read_rows(tmp_path, nemo_row(0, 0, 1, advantages=varied), nemo_row(0, 1, 0))
    np.testing.assert_array_equal(run.groups.columns["advantage"], [np.nan, 0])
    assert any("several" in one for one in run.source.inferred)


@pytest.mark.parametrize("reward", [None, float("nan")])
def test_null_rewards(tmp_path, reward):
    run = read_rows(tmp_path, nemo_row(0, 0, reward), nemo_row(0, 1, 1))
    np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1])
    assert run.problems == ()


@pytest.mark.parametrize("reward", ["good", 10**400, [1, 2]])
def test_rewards_that_are_no_numbers(tmp_path, reward):
    run = read_rows(tmp_path, nemo_row(0, 0, 1), nemo_row(0, 1, reward))
    np.testing.assert_array_equal(run.groups.rewards, [1, np.nan])
    (problem,) = run.problems
    assert problem.line == 2


def test_nan_in_the_streams_of_tokens(tmp_path):
    row = nemo_row(0, 1, 1, generation_logprobs=[[float("nan")] * 8])
    run = read_rows(tmp_path, nemo_row(0, 0, 0), row)
    assert (run.groups.rewards.tolist(), run.problems) == ([0, 1], ())


@pytest.mark.parametrize(
    "column", ["token_ids", "token_loss_mask", "advantages", "content", "input_lengths"]
)
def test_missing_columns(tmp_path, column):
    rows = [nemo_row(0, at, at % 2) for at in range(4)]
    for row in rows:
        del row[column]
    run = read_rows(tmp_path, *rows)
    assert run.groups.rewards.tolist() == [0, 1, 0, 1]


def test_damage(tmp_path):
    rows = [json.dumps(nemo_row(0, at, 1)) for at in range(4)]
    wrong = json.dumps(nemo_row(0, 0, 1, token_ids=[["a"]]))
    path = tmp_path / "train_data_step1.jsonl"
    path.write_text("\n".join([*rows[:3], wrong, "[]", "", rows[3][:-40]]))
    run = bt.read(path)
    assert run.groups.n_samples == 3
    assert run.facts.unreadable == 3
    assert [one.line for one in run.problems] == [4, 5, 7]
    assert "$.token_ids[0][0]" in run.problems[0].message
    assert run.problems[2].message.startswith("the last line is cut off")


def test_an_empty_file(tmp_path):
    (tmp_path / "train_data_step1.jsonl").touch()
    with pytest.raises(InputError, match="empty"):
        bt.read(tmp_path)


def test_through_the_command_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(nemo(tmp_path)), "--json", "--fail-on", "never"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert (told["source"]["format"], told["source"]["group_sizes"]) == ("nemo-rl", {"4": 3})
    assert told["measures"]["acr"] == pytest.approx(1 / 3)

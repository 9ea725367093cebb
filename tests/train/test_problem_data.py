"""Data sets of every form, and what is said where one cannot be used."""

from __future__ import annotations

import gzip
import json
import sys

import polars as pl
import pytest

from buttress.errors import InputError, MissingExtraError, UsageError
from buttress.train.problems import hub
from buttress.train.problems.data import load_problems
from tests.helpers import require

ROWS = [{"question": "1+1?", "answer": "2", "n": 1}, {"question": "2+2?", "answer": "4", "n": 2}]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def pairs(problems):
    return [(row["prompt"], row["answer"]) for row in problems.rows]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "json", "csv", "tsv", "parquet"])
def test_every_form_gives_the_same_problems(tmp_path, form):
    path = tmp_path / f"data.{form}"
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    if form == "jsonl.gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif form == "parquet":
        pl.DataFrame(ROWS).write_parquet(path)
    elif form in ("csv", "tsv"):
        mark = "," if form == "csv" else "\t"
        path.write_text(mark.join(ROWS[0]) + "\n")
        with path.open("a") as file:
            file.writelines(mark.join(map(str, row.values())) + "\n" for row in ROWS)
    else:
        path.write_text(json.dumps(ROWS) if form == "json" else lines)
    problems = load_problems(str(path))
    assert pairs(problems) == [("1+1?", "2"), ("2+2?", "4")]
    assert problems.left_out == ()
    assert [str(row["n"]) for row in problems.rows] == ["1", "2"]


def test_a_pattern_means_every_file_and_the_limit_counts_over_them(tmp_path):
    write_jsonl(tmp_path / "a1.jsonl", ROWS)
    write_jsonl(tmp_path / "a2.jsonl", ROWS[:1])
    assert len(load_problems(str(tmp_path / "a*.jsonl"))) == 3
    assert len(load_problems(str(tmp_path / "a*.jsonl"), limit=1)) == 1


@pytest.mark.parametrize("limit", [0, -1])
def test_no_limit_below_one(tmp_path, limit):
    with pytest.raises(UsageError, match="limit must be 1 or more"):
        load_problems(write_jsonl(tmp_path / "a.jsonl", ROWS), limit=limit)


@pytest.mark.parametrize("what", ["prompt", "answer"])
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path, what):
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(InputError) as caught:
        load_problems(path, **{what: "nosuch"})
    said = str(caught.value)
    assert "'nosuch'" in said
    assert "question, answer, n" in said
    assert f"--{what} COLUMN" in said


def test_unusual_columns_have_to_be_named(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"q": "1+1?", "a": "2"}])
    with pytest.raises(InputError, match=r"it has: q, a\. Name it with --prompt COLUMN"):
        load_problems(path)
    assert pairs(load_problems(path, prompt="q", answer="a")) == [("1+1?", "2")]


def test_answers_can_be_done_without(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "Rhyme!"}, {"question": "Sing!"}])
    with pytest.raises(InputError, match="no column for the answer"):
        load_problems(path)
    assert pairs(load_problems(path, needs_answer=False)) == [("Rhyme!", None), ("Sing!", None)]
    path = write_jsonl(tmp_path / "b.jsonl", [*ROWS, {"question": "Sing!"}])
    assert len(load_problems(path)) == 2
    assert pairs(load_problems(path, needs_answer=False))[2] == ("Sing!", None)


def test_nested_columns_and_messages(tmp_path):
    messages = [{"role": "user", "content": "1+1?"}]
    row = {"prompt": messages, "reward_model": {"ground_truth": "2"}}
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    assert pairs(load_problems(path, answer="reward_model.ground_truth")) == [(messages, "2")]


def test_a_list_of_answers_is_one_answer(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "roots?", "answer": ["1", "2"]}])
    assert pairs(load_problems(path)) == [("roots?", "1, 2")]


def test_choices_stand_lettered_under_the_problem(tmp_path):
    rows = [
        {"question": "2+2?", "answer": "B", "options": ["3", "4"]},
        {"question": "1+1?", "answer": "A", "options": "2"},
    ]
    problems = load_problems(write_jsonl(tmp_path / "a.jsonl", rows), choices="options")
    assert pairs(problems) == [("2+2?\nA. 3\nB. 4", "B")]
    assert "options" in problems.left_out[0]


def test_broken_and_empty_rows_cost_themselves_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"question": "1+1?", "answer": 2}\n{"question": broken\n[1]\n'
        '{"question": " ", "answer": 3}\n{"question": "4+4?", "answer": null}\n'
        '{"question": "5+5?", "answer": 10}\n'
    )
    problems = load_problems(str(path))
    assert pairs(problems) == [("1+1?", 2), ("5+5?", 10)]
    assert [said.split(": ")[0] for said in problems.left_out] == [
        f"{path}:{line}" for line in (2, 3, 4, 5)
    ]


def test_a_file_without_a_problem_is_an_error_that_says_why(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "", "answer": ""}\n')
    with pytest.raises(InputError, match=r"holds no problem: .*a\.jsonl:1: no text"):
        load_problems(str(path))
    path.write_text("")
    with pytest.raises(InputError, match="empty"):
        load_problems(str(path))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"b\.parquet"):
        load_problems(str(tmp_path / "b.parquet"))


@pytest.mark.parametrize("name", ["nosuch.jsonl", "./data", "/no/such/place", "a/b/c"])
def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub(name):
    with pytest.raises(InputError, match="no such file or folder"):
        load_problems(name)


def test_the_digest_tells_data_sets_apart(tmp_path):
    first = load_problems(write_jsonl(tmp_path / "a.jsonl", ROWS))
    same = load_problems(write_jsonl(tmp_path / "b.jsonl", ROWS))
    other = load_problems(write_jsonl(tmp_path / "c.jsonl", ROWS[::-1]))
    assert first.digest == same.digest != other.digest


@pytest.mark.filterwarnings("ignore")
def test_folders_as_the_hub_client_and_datasets_leave_them(tmp_path):
    datasets = require("datasets")
    datasets.disable_progress_bars()
    folder = tmp_path / "repo" / "data"
    folder.mkdir(parents=True)
    pl.DataFrame(ROWS).write_parquet(folder / "train-00000-of-00001.parquet")
    assert len(load_problems(str(tmp_path / "repo"))) == 2
    with pytest.raises(InputError, match="Unknown split"):
        load_problems(str(tmp_path / "repo"), split="test")
    saved = datasets.DatasetDict(test=datasets.Dataset.from_list(ROWS))
    saved.save_to_disk(str(tmp_path / "saved"))
    assert len(load_problems(str(tmp_path / "saved"), split="test", limit=1)) == 1


@pytest.mark.filterwarnings("ignore")
def test_without_a_network_the_message_says_what_to_fetch_and_where_to_put_it(monkeypatch):
    datasets = require("datasets")

    def fail(*args, **options):
        raise ConnectionError("Couldn't reach the hub")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(InputError) as caught:
        load_problems("openai/gsm8k", subset="main")
    said = str(caught.value)
    assert "hf download openai/gsm8k --repo-type dataset --local-dir data/gsm8k" in said
    assert "--data data/gsm8k" in said


def test_gym_problems_carry_what_their_scorer_needs():
    require("reasoning_gym")
    problems = load_problems("gym:leg_counting?size=3&seed=5")
    assert len(problems) == 3
    assert problems.rows[0]["metadata"]["source_dataset"] == "leg_counting"
    assert problems.digest == load_problems("gym:leg_counting?size=3&seed=5").digest
    with pytest.raises(UsageError, match="Did you mean 'leg_counting'"):
        load_problems("gym:leg_countin")
    with pytest.raises(UsageError, match="refuses"):
        load_problems("gym:leg_counting?nosuch=1")


def test_gym_without_the_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(MissingExtraError, match=r"buttress\[gym\]"):
        load_problems("gym:leg_counting")

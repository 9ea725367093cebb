"""Generic Parquet, CSV and TSV: the same rows in, the same run out; damage is named and local."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import InputError
from buttress.logs.formats.csv_file import CsvFile

DATA = Path(__file__).parent / "data"
FIXED = {"step": [1, 1, 1, 1, 2, 2, 2], "group": list("aabbccc")}
REWARDS = [1.0, 0.0, 0.5, None, -2.0, -2.0, 3.0]


def rows() -> dict[str, list]:
    """Return seven rollouts in three groups, with awkward texts."""
    prompts = [f'say, "{one}"\nplease' for one in FIXED["group"]]
    return {
        **FIXED,
        "prompt": prompts,
        "completion": ["", "a,b", 'quote " inside', "line\nbreak", "tab\there", "é π 😀", "end"],
        "reward": REWARDS,
        "reward/format": [1, 0, 1, 0, 1, 1, 0],
        "correct": [True, False, True, False, False, False, True],
        "length": [1, 2, 3, 4, 5, 6, 7],
    }


def csv_text(columns: dict[str, list], delimiter: str = ",") -> str:
    """Return the columns as CSV."""
    return pl.DataFrame(columns).write_csv(separator=delimiter)


def check(run) -> None:
    """Compare a run with `rows`."""
    expected = rows()
    groups = run.groups
    assert groups.sizes.tolist() == [2, 2, 3]
    assert groups.step.tolist() == [1, 1, 2]
    assert groups.group_id.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(groups.rewards, np.array(REWARDS, dtype=float))
    for name in ("reward/format", "correct", "length"):
        np.testing.assert_array_equal(groups.columns[name], np.array(expected[name], dtype=float))
    texts = run.texts(range(7))
    assert [text.prompt for text in texts] == expected["prompt"]
    assert [text.completion for text in texts] == expected["completion"]
    assert len(groups.prompt_labels) == 3


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst", "a.parquet"])
def test_the_same_rows_from_every_kind_of_file(tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        pl.DataFrame(rows()).write_parquet(path)
    else:
        data = csv_text(rows(), "\t" if ".tsv" in name else ",").encode()
        data = gzip.compress(data) if name.endswith("gz") else data
        path.write_bytes(zstandard.compress(data) if name.endswith("zst") else data)
    run = bt.read(path)
    check(run)
    assert run.problems == ()
    assert run.source.format == "generic"


def test_prompts_have_the_same_identity_in_every_format(tmp_path):
    pl.DataFrame(rows()).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(csv_text(rows()))
    lines = [json.dumps(row) for row in pl.DataFrame(rows()).to_dicts()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    labels = [
        bt.read(tmp_path / f"a.{kind}").groups.prompt_id.tolist()
        for kind in ("parquet", "csv", "jsonl")
    ]
    assert labels[0] == labels[1] == labels[2]


def test_byte_order_mark_and_other_delimiters(tmp_path):
    for delimiter in (";", "|", "\t"):
        path = tmp_path / "a.csv"
        path.write_bytes(b"\xef\xbb\xbf" + csv_text(rows(), delimiter).encode())
        check(bt.read(path))


def test_ragged_lines_cost_only_themselves(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("group,reward\na,1\na,0,7\nb\n\nb,1\nb,1\n")
    run = bt.read(path)
    assert run.groups.sizes.tolist() == [1, 2]
    assert [(problem.line, problem.file) for problem in run.problems] == [
        (3, str(path)),
        (4, str(path)),
    ]
    assert "3 fields where the header has 2" in run.problems[0].message
    assert run.facts.unreadable == 2


def test_an_open_quote_costs_one_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('group,reward,completion\na,1,"never closed\na,0,x\nb,1,y\nb,1,"fine"\n')
    run = bt.read(path)
    assert [(problem.line) for problem in run.problems] == [2]
    assert "quote" in run.problems[0].message
    assert run.groups.rewards.tolist() == [0.0, 1.0, 1.0]
    assert [text.completion for text in run.texts([2, 0])] == ["fine", "x"]


def test_a_file_cut_off_inside_a_text_says_so(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(csv_text(rows())[:-3] + '\nc,3,"cut')
    run = bt.read(path)
    assert any("left out" in problem.message for problem in run.problems)


def test_wrong_types_are_unknown_and_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("group,reward,correct\na,1,yes\na,high,true\nb,,FALSE\nb,inf,1\nb,nan,None\n")
    run = bt.read(path)
    np.testing.assert_array_equal(run.groups.rewards, [1, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(run.groups.columns["correct"], [np.nan, 1, 0, 1, np.nan])
    lines = {problem.line: problem.message for problem in run.problems}
    assert "'yes'" in lines[2]
    assert "'high'" in lines[3]
    assert set(lines) == {2, 3, 5}


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"group,completion,reward\na,caf\xe9,1\na,b,0\n")
    run = bt.read(path)
    assert run.groups.rewards.tolist() == [1.0, 0.0]
    assert [(problem.line, "UTF-8" in problem.message) for problem in run.problems] == [(2, True)]


def test_mapped_columns(tmp_path):
    frame = pl.DataFrame({"who": [1, 1, 2, 2], "points": [0, 1, 2, 3], "note": list("abcd")})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        run = bt.read(tmp_path / name, map={"reward": "points", "group": "who"})
        assert run.groups.rewards.tolist() == [0, 1, 2, 3]
        assert run.groups.sizes.tolist() == [2, 2]


def test_components_without_a_total_are_summed(tmp_path):
    frame = {"group": ["a", "a"], "reward/x": [1.0, None], "reward/y": [0.5, None]}
    pl.DataFrame(frame, schema_overrides={"reward/x": float}).write_parquet(tmp_path / "a.parquet")
    run = bt.read(tmp_path / "a.parquet")
    np.testing.assert_array_equal(run.groups.rewards, [1.5, np.nan])
    assert any("unweighted" in one for one in run.source.inferred)


def test_interleaved_rows_with_a_group_size_are_refused(tmp_path):
    frame = pl.DataFrame({"prompt": ["p", "q"] * 8, "reward": [1.0, 0.0] * 8})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        assert bt.collapse_rate(bt.read(tmp_path / name).groups) == 1.0
        found = bt.diagnose(bt.read(tmp_path / name, group_size=4))
        assert "broken-grouping" in {finding.rule for finding in found.findings}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_metrics_wide_and_long(tmp_path, kind):
    wide = pl.DataFrame({"step": [1, 2, 3], "loss": [0.5, None, 0.1], "grad_norm": [1.0, 2.0, 3.0]})
    long = wide.unpivot(index="step", variable_name="name")
    for frame in (wide, long):
        path = tmp_path / f"m.{kind}"
        frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
        run = bt.read(path)
        assert len(run.groups) == 0
        assert run.scalar("loss").step.tolist() == [1, 3]
        np.testing.assert_array_equal(run.scalars["loss"].value, [0.5, np.nan, 0.1])
        assert run.scalar("grad_norm").value.tolist() == [1, 2, 3]


def test_a_parquet_column_of_the_wrong_type(tmp_path):
    path = tmp_path / "a.parquet"
    frame = {
        "group": list("aab"),
        "reward": ["1", "x", "0.5"],
        "length": [[1], [2], [3]],
        "correct": [{"is": 1}, {"is": 0}, {"is": 1}],
    }
    pl.DataFrame(frame).write_parquet(path)
    run = bt.read(path)
    np.testing.assert_array_equal(run.groups.rewards, [1.0, np.nan, 0.5])
    messages = " ".join(problem.message for problem in run.problems)
    assert "'x'" in messages
    assert "length" in messages
    assert "correct" in messages


def test_nested_prompts_are_text(tmp_path):
    chat = [[{"role": "user", "content": "hi"}], [{"role": "user", "content": "hi"}], None]
    frame = {"prompt": chat, "completion": [chat[0], chat[0], None], "reward": [1.0, 0.0, 1.0]}
    pl.DataFrame(frame).write_parquet(tmp_path / "a.parquet")
    run = bt.read(tmp_path / "a.parquet")
    assert run.groups.sizes.tolist() == [2, 1]
    assert run.texts([0, 2]) == [("hi", "hi"), ("", "")]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(100), b"hello, world\n" * 9])
def test_a_broken_parquet_beside_a_good_one(tmp_path, data):
    pl.DataFrame(rows()).write_parquet(tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(data)
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 7
    assert [Path(problem.file).name for problem in run.problems] == ["bad.parquet"]


def test_tables_that_hold_nothing(tmp_path):
    (tmp_path / "a.csv").write_text("name,age\nx,3\n")
    with pytest.raises(InputError, match="reward"):
        bt.read(tmp_path / "a.csv")
    pl.DataFrame({"name": ["x"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="reward"):
        bt.read(tmp_path / "b.parquet")
    pl.DataFrame(rows()).clear().write_parquet(tmp_path / "c.parquet")
    assert len(bt.read(tmp_path / "c.parquet").groups) == 0


def test_more_rows_than_one_stretch(tmp_path, monkeypatch):
    monkeypatch.setattr("buttress.logs.formats.lazy.SLICE", 3)
    monkeypatch.setattr("buttress.logs.formats.csv_file.CHUNK", 3)
    pl.DataFrame(rows()).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(csv_text(rows()))
    check(bt.read(tmp_path / "a.parquet"))
    check(bt.read(tmp_path / "a.csv"))


GOOD = DATA / "trl_plain" / "completions" / "completions_00001.parquet"


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, GOOD.stat().st_size - 1), zeros=st.integers(0, 400), trl=st.booleans())
def test_no_damage_ends_in_a_traceback(tmp_path_factory, cut, zeros, trl):
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / ("completions_00002.parquet" if trl else "a.parquet")
    path.write_bytes(GOOD.read_bytes()[:cut] + bytes(zeros))
    (folder / "completions_00001.parquet").write_bytes(GOOD.read_bytes())
    run = bt.read(folder)
    assert run.groups.n_samples == 8
    assert str(path) in {problem.file for problem in run.problems}


FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(FIELD, min_size=1, max_size=20), broken=st.sets(st.integers(0, 19)))
def test_every_whole_record_survives_broken_ones(tmp_path_factory, texts, broken):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    lines, line, expected, faults = ["group,completion,reward\n"], 2, [], []
    for at, text in enumerate(texts):
        quoted = text.replace('"', '""')
        record = f'g,"{quoted}",{at}\n'
        if at in broken:
            record = f"g,{at}\n"
            faults.append(line)
        else:
            expected.append((line, text, str(at)))
        lines.append(record)
        line += record.count("\n")
    path.write_text("".join(lines), newline="")
    found = CsvFile(path, ("group", "completion", "reward"), ",")
    got = [
        (number, *fields)
        for chunk in found.chunks()
        for number, *fields in zip(
            chunk.lines, chunk.columns["completion"], chunk.columns["reward"], strict=True
        )
    ]
    assert got == expected

"""Damaged and foreign input: said with file and line, the rest read, never a traceback."""

from __future__ import annotations

import json
import pickle
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.errors import InputError, UsageError
from tests.logs.writing import jsonl, rollouts, verl_row, write

FOUR = rollouts({"a": [0, 1, 1, 0]})
GOOD = jsonl(FOUR)


def said(run) -> list[tuple[int, str]]:
    return [(one.line, one.message) for one in run.problems]


def read_lines(tmp_path, *lines: bytes):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines))
    return bt.read(path)


class TestLines:
    def test_a_truncated_last_line(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_bytes(GOOD[:-20])
        run = bt.read(path)
        assert run.groups.n_samples == 3
        assert run.facts.unreadable == 1
        (problem,) = run.problems
        assert (problem.file, problem.line) == (str(path), 4)
        assert problem.message.startswith("the last line is cut off")

    def test_a_last_line_without_its_end_is_whole(self, tmp_path):
        run = read_lines(tmp_path, GOOD.rstrip(b"\n"))
        assert (run.groups.n_samples, run.problems) == (4, ())

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b'{"step": 1, "event": "evaluation"}', "a JSON object without a reward"),
            (b"[1, 2]", "not a JSON object: found a list"),
            (b"17", "not a JSON object: found 17"),
            (b'"text"', "not a JSON object: found 'text'"),
            (b"null", "not a JSON object: found a NoneType"),
            (b"Traceback (most recent call last):", "not a JSON object"),
            (b'{"reward": 1', "not a JSON object"),
            (b'{"reward": 1}{"reward": 0}', "not a JSON object"),
            (b'{"a": ' + b"[" * 100_000 + b"}", "not a JSON object"),
            (b"\x00\x01\x02", "not a JSON object"),
        ],
    )
    def test_a_line_of_something_else(self, tmp_path, line, message):
        run = read_lines(tmp_path, GOOD.rstrip(), line, GOOD.rstrip())
        assert run.groups.n_samples == 8
        ((number, text),) = said(run)
        assert number == 5
        assert text.startswith(message)

    def test_one_object_over_two_lines(self, tmp_path):
        run = read_lines(tmp_path, b'{"group": "b",', b'"reward": 1}', GOOD)
        assert run.groups.n_samples == 4
        assert [line for line, _ in said(run)] == [1, 2]
        assert run.groups.columns["row"].tolist() == [3, 4, 5, 6]

    @pytest.mark.parametrize("between", [b"", b"  ", b"\r"])
    def test_blank_lines_keep_the_count(self, tmp_path, between):
        rows = GOOD.splitlines()
        run = read_lines(tmp_path, rows[0], between, between, *rows[1:], between)
        assert run.problems == ()
        assert run.groups.columns["row"].tolist() == [1, 4, 5, 6]
        assert run.texts([1])[0].completion == "a/1 at 1"

    def test_windows_lines_and_a_byte_order_mark(self, tmp_path):
        run = read_lines(tmp_path, b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"))
        assert (run.groups.n_samples, run.problems) == (4, ())

    def test_bytes_that_are_not_utf8(self, tmp_path):
        lines = [json.dumps(row | {"completion": "é" * 9}, ensure_ascii=False) for row in FOUR]
        encoded = [line.encode() for line in lines]
        encoded[2] = lines[2].encode("latin-1")
        run = read_lines(tmp_path, *encoded)
        assert run.groups.rewards.tolist() == [0, 1, 1, 0]
        assert said(run) == [(3, "bytes that are not UTF-8: replaced")]
        assert run.texts([2])[0].completion == "\ufffd" * 9
        # the sound completions are still seen to be one text
        assert len(set(run.groups.columns["completion"][[0, 1, 3]].tolist())) == 1

    @pytest.mark.parametrize("name", ["prompt", "completion", "group"])
    def test_half_a_surrogate_pair(self, tmp_path, name):
        rows = [row | {name: "cut \ud83d"} for row in FOUR]
        run = read_lines(tmp_path, jsonl(rows))
        assert run.groups.rewards.tolist() == [0, 1, 1, 0]
        assert run.problems == ()
        shown = "".join(run.texts([0])[0]) + str(run.groups.group_id[0])
        assert "cut ?" in shown
        shown.encode()

    def test_a_flood_is_counted(self, tmp_path):
        run = read_lines(tmp_path, *[b"not JSON"] * 500, GOOD)
        assert run.groups.n_samples == 4
        assert len(run.problems) == 21
        assert run.problems[-1].message.startswith("480 more")
        assert run.facts.unreadable == 500

    def test_good_rows_after_many_others(self, tmp_path):
        other = [b'{"event": "start"}'] * 300
        run = read_lines(tmp_path, *other, GOOD.rstrip(), *other)
        assert run.groups.n_samples == 4
        assert run.groups.columns["row"].tolist() == [301, 302, 303, 304]


class TestValues:
    def rewards(self, tmp_path, values):
        rows = [dict(FOUR[0], sample=at, reward=value) for at, value in enumerate(values)]
        return bt.read(write(tmp_path / "a.jsonl", rows))

    @pytest.mark.parametrize(
        ("value", "reward"),
        [
            (None, np.nan),
            (float("nan"), np.nan),
            (True, 1.0),
            (False, 0.0),
            (3, 3.0),
            (10**30, 1e30),
            (-0.5, -0.5),
        ],
    )
    def test_plain(self, tmp_path, value, reward):
        run = self.rewards(tmp_path, [1, value, 0])
        np.testing.assert_array_equal(run.groups.rewards, [1, reward, 0])
        assert run.problems == ()

    @pytest.mark.parametrize("value", ["1.5", " 1.5 ", "15e-1"])
    def test_numbers_as_text_are_read_and_said_once(self, tmp_path, value):
        run = self.rewards(tmp_path, [1, value, value])
        assert run.groups.rewards.tolist() == [1, 1.5, 1.5]
        ((line, message),) = said(run)
        assert line == 2
        assert "numbers written as text" in message

    @pytest.mark.parametrize("value", ["good", "1,5", {"total": 1}, 10**400, 1e999, -1e999])
    def test_no_numbers(self, tmp_path, value):
        run = self.rewards(tmp_path, [1, value, 0])
        np.testing.assert_array_equal(run.groups.rewards, [1, np.nan, 0])
        ((line, message),) = said(run)
        assert line == 2
        assert message.startswith(("reward is not a number", "reward is infinite"))

    @pytest.mark.parametrize("value", ["", "null", "None", "nan", "N/A"])
    def test_null_as_text(self, tmp_path, value):
        run = self.rewards(tmp_path, [1, value, 0])
        np.testing.assert_array_equal(run.groups.rewards, [1, np.nan, 0])

    def test_nan_leaves_the_other_columns_alone(self, tmp_path):
        text = 'he said: "reward": NaN, and \\": NaN, then'
        rows = [dict(FOUR[0], sample=at, completion=text, reward=np.nan) for at in range(3)]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.problems == ()
        assert {one.completion for one in run.texts([0, 1, 2])} == {text}
        assert len(set(run.groups.columns["completion"].tolist())) == 1

    def test_every_reward_null(self, tmp_path):
        run = self.rewards(tmp_path, [None] * 4)
        assert np.isnan(run.groups.rewards).all()
        diagnosis = bt.diagnose(run)
        assert diagnosis.measures["groups"]["unscorable"] == 1

    def test_chat_messages_as_texts(self, tmp_path):
        chat = [{"role": "user", "content": "1+1?"}, {"role": "user", "content": "fast"}]
        answer = [{"role": "assistant", "content": "2"}]
        rows = [{"prompt": chat, "completion": answer, "reward": at % 2} for at in range(4)]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.problems == ()
        assert run.groups.sizes.tolist() == [4]
        assert run.texts([0])[0] == ("1+1?\nfast", "2")
        plain = bt.read(write(tmp_path / "b.jsonl", [{"prompt": "1+1?\nfast", "reward": 1}]))
        assert plain.groups.prompt_id.tolist() == run.groups.prompt_id.tolist()

    def test_other_columns(self, tmp_path):
        odd = {"length": "many", "truncated": "yes", "sample": 1.5, "advantage": [1], "step": None}
        rows = [FOUR[0], dict(FOUR[0], **odd), FOUR[2]]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert run.groups.n_samples == 3
        lines = {line for line, _ in said(run)}
        assert lines <= {0, 2}
        text = " ".join(message for _, message in said(run))
        for name in ("length", "truncated", "sample", "step"):
            assert name in text


class TestSchemas:
    def test_a_change_of_names(self, tmp_path):
        first = [{"group": "a", "reward": 1, "completion": str(at)} for at in range(4)]
        then = [{"uid": "b", "score": 0, "response": str(at)} for at in range(4)]
        run = bt.read(write(tmp_path / "a.jsonl", first + then))
        assert run.groups.rewards.tolist() == [1] * 4 + [0] * 4
        assert run.groups.group_id.tolist() == ["a", "b"]
        ((_, message),) = said(run)
        assert "mixed schemas" in message
        assert "reward is read from score, before from reward" in message
        assert run.texts([4])[0].completion == "0"

    def test_alternating_names(self, tmp_path):
        rows = [{"group": "a", "reward" if at % 2 else "score": at} for at in range(100)]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        # two plans, one order
        assert sorted(run.groups.rewards.tolist()) == [*range(100)]
        assert (run.groups.columns["row"] == run.groups.rewards + 1).all()

    def test_a_column_that_appears_late(self, tmp_path):
        rows = rollouts({"a": [0, 1, 1, 0] * 5000})
        for row in rows[-1000:]:
            row["length"] = 7
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert (run.groups.columns["length"] == 7).sum() == 1000
        assert any("length appears" in message for _, message in said(run))

    def test_two_files(self, tmp_path):
        write(tmp_path / "1.jsonl", [{"group": "a", "reward": 1}] * 2)
        write(tmp_path / "2.jsonl", [{"group": "b", "score": 0}] * 2)
        run = bt.read(tmp_path)
        assert run.groups.rewards.tolist() == [1, 1, 0, 0]
        assert run.problems[0].file.endswith("2.jsonl")

    def test_lists_of_rewards_are_refused_with_advice(self, tmp_path):
        rows = [{"step": 1, "prompt": ["p", "p"], "completion": ["a", "b"], "reward": [0, 1]}]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert "one line per rollout" in " ".join(message for _, message in said(run))

    def test_one_json_array(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text(json.dumps(FOUR))
        run = bt.read(path)
        assert "jq" in said(run)[0][1]

    def test_one_row(self, tmp_path):
        run = read_lines(tmp_path, GOOD.splitlines()[0])
        assert run.groups.n_samples == 1
        assert np.isnan(bt.collapse_rate(run.groups))

    def test_no_reward_at_all(self, tmp_path):
        rows = [{"group": "a", "correct": at % 2, "my_score": 1} for at in range(4)]
        run = bt.read(write(tmp_path / "a.jsonl", rows))
        assert "--map reward=COLUMN" in said(run)[0][1]
        assert "my_score" in said(run)[0][1]


class TestPlaces:
    def test_unrelated_files_alone(self, tmp_path):
        (tmp_path / "config.yaml").write_text("a: 1")
        (tmp_path / "notes.jsonl").write_text('{"a": 1}\n')
        with pytest.raises(InputError, match=r"config\.yaml.*notes\.jsonl"):
            bt.read(tmp_path)

    def test_unrelated_files_beside_rollouts_are_one_problem(self, tmp_path):
        write(tmp_path / "1.jsonl", FOUR)
        for name in ("config.yaml", "README.md", "notes.jsonl", "photo.png"):
            (tmp_path / name).write_bytes(b"{}")
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 4
        (problem,) = run.problems
        assert "4 files" in problem.message

    @pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".pt", ".pth"])
    def test_pickles_are_never_opened(self, tmp_path, suffix):
        class Bomb:
            def __reduce__(self):
                return (pytest.fail, ("a pickle was loaded",))

        path = tmp_path / f"rollout_1{suffix}"
        path.write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(InputError, match=r"pickled dumps are not opened.*JSONL"):
            bt.read(path)
        write(tmp_path / "1.jsonl", FOUR)
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 4
        assert (run.problems[0].file, run.problems[0].line) == (str(path), 0)

    def test_an_empty_file(self, tmp_path):
        (tmp_path / "a.jsonl").touch()
        with pytest.raises(InputError, match=r"a\.jsonl"):
            bt.read(tmp_path)
        write(tmp_path / "1.jsonl", FOUR)
        assert bt.read(tmp_path).groups.n_samples == 4

    def test_several_formats(self, tmp_path):
        for step in (1, 2):
            write(tmp_path / f"{step}.jsonl", [verl_row("p", str(at), 1, step) for at in range(4)])
        write(tmp_path / "other.jsonl", FOUR)
        run = bt.read(tmp_path)
        assert (run.source.format, run.groups.n_samples) == ("verl", 8)
        assert "other.jsonl" in run.problems[0].file
        assert "--format" in run.problems[0].message
        assert bt.read(tmp_path, format="generic").groups.n_samples == 12

    def test_a_file_that_vanishes(self, tmp_path):
        path = write(tmp_path / "1.jsonl", FOUR)
        run = bt.read(path)
        path.unlink()
        assert run.texts([0]) == [("", "")]

    def test_a_file_that_was_cut_since(self, tmp_path):
        path = write(tmp_path / "1.jsonl", FOUR)
        run = bt.read(path)
        path.write_bytes(GOOD.splitlines(keepends=True)[0])
        assert [one.completion for one in run.texts([3, 0])] == ["", "a/0 at 1"]


class TestUsage:
    def test_unknown_format(self, tmp_path):
        write(tmp_path / "1.jsonl", FOUR)
        with pytest.raises(UsageError, match=r"unknown format 'verk'. Did you mean 'verl'"):
            bt.read(tmp_path, format="verk")

    def test_unknown_column_of_the_table(self, tmp_path):
        write(tmp_path / "1.jsonl", FOUR)
        with pytest.raises(UsageError, match="Did you mean 'reward'"):
            bt.read(tmp_path, map={"rewad": "reward"})

    def test_unknown_column_of_the_log(self, tmp_path):
        write(tmp_path / "1.jsonl", FOUR)
        with pytest.raises(UsageError, match=r"no column my_score.*completion"):
            bt.read(tmp_path, map={"reward": "my_score"})

    @pytest.mark.parametrize("size", [0, -1])
    def test_group_size(self, tmp_path, size):
        write(tmp_path / "1.jsonl", FOUR)
        with pytest.raises(UsageError, match="group size"):
            bt.read(tmp_path, group_size=size)


class TestForeignColumns:
    ROWS: ClassVar = [{"my_score": at % 2, "batch": at // 4, "text": "x"} for at in range(8)]

    @pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
    def test_the_columns_of_the_file_and_the_remedy_are_named(self, tmp_path, name):
        path = tmp_path / name
        frame = pl.DataFrame(self.ROWS)
        write_as = {".jsonl": frame.write_ndjson, ".csv": frame.write_csv}
        write_as.get(path.suffix, frame.write_parquet)(path)
        with pytest.raises(InputError, match=r"columns my_score, batch, text.*--map reward=COLUMN"):
            bt.read(path)
        run = bt.read(path, map={"reward": "my_score", "group": "batch"})
        assert run.groups.sizes.tolist() == [4, 4]

    def test_beside_rollouts(self, tmp_path):
        write(tmp_path / "1.jsonl", FOUR)
        write(tmp_path / "2.jsonl", self.ROWS)
        (problem,) = bt.read(tmp_path).problems
        assert "my_score, batch, text" in problem.message

    def test_very_many_columns_are_counted(self, tmp_path):
        row = {f"c{at}": "x" for at in range(100)}
        with pytest.raises(InputError, match=r"c0, c1.*c29 and 70 more"):
            bt.read(write(tmp_path / "a.jsonl", [row]))

    def test_a_document_is_no_table(self, tmp_path):
        (tmp_path / "config.json").write_text('{"lr": 0.1}')
        with pytest.raises(InputError) as caught:
            bt.read(tmp_path)
        assert "lr" not in str(caught.value)

"""`buttress select` from end to end: levels, samples, resuming, ranks, a full disc, bad input."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from buttress.cli import main
from buttress.measures import wilson_interval
from buttress.train import outcomes
from buttress.train.selection.levels import level_of
from tests.helpers import require
from tests.train import digits

require("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

COUNT, N = 12, 8
FILES = ("levels.jsonl", "level-3.jsonl")


def arguments(data, out, *more):
    usual = {"--samples": str(N), "--batch": str(N), "--size": "2", "--out": str(out)}
    return ["select", str(data), *digits.options(usual, *more)]


def call(*given):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in given])
    return int(left.value.code or 0)


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return digits.write(tmp_path_factory.mktemp("data") / "digits.jsonl", COUNT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """The folder of an undisturbed run, and what it said."""
    out = tmp_path_factory.mktemp("whole")
    code, said, err = digits.run(*arguments(data, out, "--keep", "--json"))
    assert code == 0, err
    return out, json.loads(said), err


def same(out, whole, *, texts=False):
    """Assert that a run ended with what the undisturbed one has."""
    for name in FILES:
        expected = read(whole[0] / name)
        for row in expected if not texts else ():
            row.pop("completions")
        found = read(out / name)
        for row in found if not texts else ():
            row.pop("completions", None)
        assert found == expected


def test_counts_are_those_of_the_completions(whole):
    rows = read(whole[0] / "levels.jsonl")
    assert [row["number"] for row in rows] == list(range(COUNT))
    for row in rows:
        won = sum(one == row["answer"] for one in row["completions"])
        assert (row["tries"], row["successes"], row["unscored"]) == (N, won, 0)
        assert row["rate"] == won / N
        assert [row["low"], row["high"]] == list(wilson_interval(won, N))
        assert row["level"] == level_of(won, N)
        assert row["mean_length"] == 7.0
    assert 0 < sum(row["successes"] for row in rows) < COUNT * N


def test_the_summary_counts_the_levels_and_names_the_files(whole):
    out, said, err = whole
    rows = read(out / "levels.jsonl")
    counts = {str(level): sum(row["level"] == level for row in rows) for level in range(7)}
    assert said["levels"] == counts
    assert said["files"] == [str(out / name) for name in FILES]
    assert said["notes"] == ["with 8 tries no problem can have level 5; raise --samples"]
    assert f"problems {COUNT}/{COUNT}" in err


def test_the_sample_is_of_the_level_and_can_be_drawn_again_without_sampling(
    whole, data, monkeypatch, capsys
):
    out, said, _ = whole
    sample = read(out / "level-3.jsonl")
    assert len(sample) == min(2, said["levels"]["3"])
    assert all(row["level"] == 3 for row in sample)
    assert [row["prompt_id"] for row in sample] == said["sample"]["prompt_id"]
    monkeypatch.setattr(outcomes, "sampler_for", lambda *args, **options: pytest.fail("sampled"))
    before = (out / "level-3.jsonl").read_bytes()
    assert call(*arguments(data, out, "--keep")) == 0
    assert (out / "level-3.jsonl").read_bytes() == before
    assert call(*arguments(data, out, "--keep", "--level", "4", "--bands", "0.9,0.5,0.2,0.1")) == 0
    assert "level 4" in capsys.readouterr().out
    assert {row["level"] for row in read(out / "levels.jsonl")} <= {0, 1, 2, 3, 4}
    assert call(*arguments(data, out, "--keep", "--format", "parquet")) == 0
    frame = pl.read_parquet(out / "levels.parquet")
    assert frame["successes"].to_list() == [row["successes"] for row in read(out / "levels.jsonl")]
    assert call(*arguments(data, out, "--keep")) == 0  # for the tests that compare


def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_been(tmp_path, data, whole):
    process = digits.start(*arguments(data, tmp_path))
    log = tmp_path / "finished-0.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = len(log.read_bytes().splitlines())
    assert 0 < finished < COUNT
    with log.open("ab") as file:
        file.write(b'{"index": 11, "scores": [1.0, 1.0')  # as a kill within a write leaves it
    code, _, err = digits.run(*arguments(data, tmp_path))
    assert code == 0, err
    same(tmp_path, whole)


def test_two_ranks_share_the_work_and_the_last_one_writes(tmp_path, data, whole):
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"]
    code, out, err = digits.run(*arguments(data, tmp_path), launcher=launcher)
    assert code == 0, err
    same(tmp_path, whole)
    shares = [len(read(tmp_path / f"finished-{rank}.jsonl")) for rank in (0, 1)]
    assert shares == [COUNT // 2, COUNT // 2]
    assert "(rank 1)" in err
    assert "all 12 with counts" in out


def test_one_process_finishes_what_a_lost_rank_left(tmp_path, data, whole):
    alone = {"RANK": "1", "WORLD_SIZE": "2"}
    code, out, err = digits.run(*arguments(data, tmp_path), env=alone)
    assert (code, out) == (0, "")
    assert "rank 1 is done; the last rank writes" in err
    assert not (tmp_path / "levels.jsonl").exists()
    code, _, err = digits.run(*arguments(data, tmp_path))
    assert code == 0, err
    same(tmp_path, whole)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_full_disc_loses_nothing(tmp_path, data, whole):
    import resource

    # room for the settings and some outcomes
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))  # noqa: E731
    code, _, err = digits.run(*arguments(data, tmp_path), preexec_fn=limit)
    assert code == 2
    assert "cannot write" in err
    assert "make room and give the same command again" in err
    assert "Traceback" not in err
    kept = read(tmp_path / "finished-0.jsonl")
    assert 0 < len(kept) < COUNT
    code, _, err = digits.run(*arguments(data, tmp_path))
    assert code == 0, err
    same(tmp_path, whole)


def test_other_settings_do_not_mix_with_what_is_there(whole, data, capsys):
    out = whole[0]
    assert call(*arguments(data, out, "--keep", "--temperature", "0.5")) == 2
    said = capsys.readouterr().err
    assert "sampling.temperature: 1.0 then, 0.5 now" in said
    assert "another --out" in said


def test_columns_of_the_data_set_that_bear_our_names_are_kept(tmp_path):
    rows = [row | {"level": "Level 5"} for row in digits.rows(2)]
    path = tmp_path / "math.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call(*arguments(path, tmp_path / "out")) == 0
    found = read(tmp_path / "out" / "levels.jsonl")
    assert [row["original/level"] for row in found] == ["Level 5"] * 2
    assert call(*arguments(tmp_path / "out" / "levels.jsonl", tmp_path / "again")) == 0
    again = read(tmp_path / "again" / "levels.jsonl")
    assert [row["original/level"] for row in again] == ["Level 5"] * 2
    assert "original/tries" not in again[0]


JUDGE = """
def broken(completions, **_):
    raise KeyError("no such column")


def moody(completions, number, **_):
    if number[0] == 1:
        raise ValueError("not this one")
    return [0.5]
"""


def test_a_judge_that_never_judges_is_given_up(tmp_path, data, monkeypatch, capsys):
    (tmp_path / "judge.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)
    given = arguments(data, tmp_path / "out", "--verifier", "judge:broken", "--max-tokens", "1")
    assert call(*given) == 2
    said = capsys.readouterr().err
    assert "has given no score for any of the first 64 completions" in said
    assert "KeyError: 'no such column' (judge.py:3)" in said


def test_what_cannot_be_judged_has_no_level_and_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "judge.py").write_text(JUDGE)
    path = digits.write(tmp_path / "digits.jsonl", 2)
    monkeypatch.chdir(tmp_path)
    usual = ["--verifier", "judge:moody", "--threshold", "0.5", "--level", "0"]
    assert call(*arguments(path, tmp_path / "out", *usual)) == 0
    said = capsys.readouterr()
    assert "8 of 16 completions have no score: 8 ValueError: not this one" in said.err
    assert "not judged" in said.out
    solved, unknown = read(tmp_path / "out" / "levels.jsonl")
    assert (solved["level"], solved["rate"]) == (0, 1.0)
    assert (unknown["level"], unknown["rate"], unknown["low"]) == (None, None, None)
    assert (unknown["tries"], unknown["unscored"]) == (0, 8)


def test_a_prompt_that_fills_the_context_costs_itself_alone(tmp_path, capsys):
    rows = digits.rows(3)
    rows[1] = rows[1] | {"problem": "1" * 70}
    path = tmp_path / "digits.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call(*arguments(path, tmp_path / "out", "--batch", "64")) == 0
    said = "8 of 24 completions have no score: 8 their prompt fills the model's context"
    assert said in capsys.readouterr().err
    found = read(tmp_path / "out" / "levels.jsonl")
    assert [row["tries"] for row in found] == [8, 0, 8]
    assert [row["level"] is None for row in found] == [False, True, False]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--prompt", "nosuch"], "it has: problem, answer, number"),
        (["--model", "runs/nosuch/model"], "no such model"),
        (["--verifier", "mth"], "Did you mean 'math'"),
        (["--verifier", "nosuch:f"], "cannot import nosuch"),
        (["--verifier-option", "pattern"], "KEY=VALUE"),
        (["--verifier-option", "pattern=["], "no regular expression"),
        (["--samples", "0"], "must be 1 or more"),
        (["--level", "7"], "level must lie between 0 and 6"),
        (["--size", "0"], "size must be 1 or more"),
        (["--bands", "0.5,x"], "numbers joined by commas"),
        (["--bands", "0.5,0.6"], "descend"),
        (["--template", "no place"], "{prompt}"),
        (["--temperature", "-1"], "temperature must be 0 or more"),
        (["--timeout", "0"], "above 0 seconds"),
        (["--dtype", "int3"], "unknown dtype"),
        (["--chat"], "no chat template"),
        (["--limit", "0"], "limit must be 1 or more"),
        (["--engine", "vllm"], "pip install vllm"),
    ],
)
def test_bad_usage_is_a_message_and_exit_2(tmp_path, data, capsys, more, said):
    assert call(*arguments(data, tmp_path / "out", *more)) == 2
    error = capsys.readouterr().err
    # click-style boxes break lines
    assert said in " ".join(error.replace("│", " ").split())
    assert "Traceback" not in error
    assert not (tmp_path / "out" / "levels.jsonl").exists()

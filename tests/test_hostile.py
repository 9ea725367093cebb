"""Hostile but realistic input through the command line: one test for each kind of fault."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import pickle
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import UsageError

ROWS = [
    {"step": 1, "group": name, "reward": at % 2, "completion": f"{name}{at}"}
    for name in "ab"
    for at in range(4)
]
GOOD = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
EVIL = "<script>alert(1)</script>\x1b[31m[red]\u202e=1+1\x00"


@pytest.fixture
def run(capfd):
    """Call the command line; return its exit code, standard output and standard error."""

    def called(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(one) for one in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return int(left.value.code or 0), out, err

    return called


@pytest.fixture
def report(run):
    """Diagnose as JSON; return the exit code and the report, which must be strict JSON."""

    def diagnosed(*arguments: object):
        code, out, err = run("diagnose", "--json", *arguments)
        assert code in (0, 1), err
        assert not err
        return code, json.loads(out, parse_constant=pytest.fail)

    return diagnosed


def refused(outcome: tuple[int, str, str]) -> str:
    """Check bad usage or nothing readable: exit code 2, one message, no output; return it."""
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert err.strip()
    return err


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


class TestPlaces:
    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("", "empty path"),
            ("x" * 5000, "too long"),
            ("~no-such-user/a.jsonl", "no such file"),
            ("a\0b", "no such file"),
        ],
    )
    def test_a_path_that_is_none(self, run, path, said):
        assert said in refused(run("diagnose", "--json", path))

    @pytest.mark.parametrize("kind", ["link", "loop", "pipe", "socket"])
    @pytest.mark.parametrize("beside", [False, True], ids=["alone", "in a folder"])
    def test_no_regular_file(self, run, report, tmp_path, monkeypatch, kind, beside):
        monkeypatch.chdir(tmp_path)  # a socket's path must be short
        path = tmp_path / "special.jsonl"
        if kind in ("link", "loop"):
            path.symlink_to("nowhere" if kind == "link" else path.name)
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        if not beside:
            assert "special.jsonl cannot be read" in refused(run("diagnose", "--json", path))
            return
        written(tmp_path / "good.jsonl", GOOD)
        _, found = report(tmp_path)
        assert found["source"]["rollouts"] == 8
        assert [Path(one["file"]).name for one in found["problems"]] == ["special.jsonl"]

    def test_the_others_are_read_where_a_path_is_missing(self, report, tmp_path):
        good = written(tmp_path / "good.jsonl", GOOD)
        _, found = report(tmp_path / "gone", good)
        assert found["source"]["rollouts"] == 8
        assert "no such file" in found["problems"][0]["message"]

    def test_a_working_directory_that_is_gone(self, tmp_path):
        (tmp_path / "gone").mkdir()
        code = (
            "import os; os.rmdir('../gone'); from buttress.cli import main; main(['diagnose','x'])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path / "gone", capture_output=True, text=True
        )
        assert done.returncode == 2
        assert done.stderr.startswith("buttress: ")


class TestForeignFiles:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "empty"),
            (b"\n\r\n  \n", "blank"),
            (GOOD.decode().encode("utf-16"), "UTF-16"),
            (GOOD.decode().encode("utf-16-le"), "UTF-16"),
            (GOOD.decode().encode("utf-32"), "UTF-32"),
            (GOOD.replace(b"\n", b"\r"), "CR"),
            (bz2.compress(GOOD), "bzip2"),
            (lzma.compress(GOOD), "xz"),
            (pickle.dumps(ROWS), "pickled"),
        ],
    )
    @pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
    def test_what_it_is_and_what_to_do(self, run, tmp_path, data, said, suffix):
        message = refused(run("diagnose", written(tmp_path / f"a{suffix}", data)))
        assert f"a{suffix}" in message
        assert said in message

    def test_a_zip_is_not_read_as_text(self, run, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a.jsonl", GOOD)
        assert "unpack" in refused(run("diagnose", tmp_path / "a.zip"))

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("a.json", json.dumps(ROWS).encode()),
            ("trainer_state.json", b'{"log_history": [{"step": 1'),
            ("trainer_state.json", b'{"log_history": []}'),
            ("a.csv", b"step,group,reward\n"),
        ],
    )
    def test_nothing_readable_is_exit_code_2(self, run, tmp_path, name, data):
        assert name in refused(run("diagnose", "--json", written(tmp_path / name, data)))

    def test_a_wide_header_takes_no_time(self, run, tmp_path):
        path = written(tmp_path / "a.csv", b"a," * (4 << 20))
        start = time.process_time()
        refused(run("diagnose", path))
        assert time.process_time() - start < 3


class TestValues:
    @pytest.mark.parametrize(
        "line",
        [
            b'{"step": 1, "group": "a", "reward": 1' + b"0" * 5000 + b"}",
            b'{"step": 1, "group": "a", "reward": 1, "completion": "\\ud800"}',
            b'{"step": 1, "group": "\\udfff", "reward": 1, "completion": "x"}',
        ],
    )
    def test_a_rollout_is_not_lost(self, report, tmp_path, line):
        _, found = report(written(tmp_path / "a.jsonl", GOOD + line + b"\n"))
        assert found["source"]["rollouts"] == 9

    @pytest.mark.parametrize("name", [b"\\ud800", b'\\"', b"\\\\", b"\\u001b", b"\\u0000"])
    def test_column_names_that_no_one_would_write(self, report, tmp_path, name):
        rows = GOOD.replace(b'"reward"', b'"reward/' + name + b'": 1, "reward"')
        _, found = report(written(tmp_path / "a.jsonl", rows))
        assert found["source"]["rollouts"] == 8

    @pytest.mark.parametrize("value", ["correct", {"total": 1}])
    def test_rewards_that_are_no_numbers_are_named(self, report, tmp_path, value):
        rows = "".join(json.dumps(row | {"reward": value}) + "\n" for row in ROWS)
        code, found = report(written(tmp_path / "a.jsonl", rows.encode()))
        assert code == 1
        assert "reward" in found["problems"][0]["message"]
        assert found["measures"]["acr"] is None

    def test_decimal_rewards(self, report, tmp_path):
        frame = pl.DataFrame(ROWS).with_columns(pl.col("reward").cast(pl.Decimal(10, 2)))
        frame.write_parquet(tmp_path / "a.parquet")
        _, found = report(tmp_path / "a.parquet")
        assert found["measures"]["acr"] == 0.0


class TestTexts:
    def test_no_text_reaches_a_screen_or_a_browser_raw(self, run, tmp_path):
        rows = [
            row | {"group": EVIL, "prompt": EVIL, "completion": EVIL, f"reward/{EVIL}": 0}
            for row in ROWS
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows) + EVIL + "\n"
        path = written(tmp_path / "\x1b[31m[red]\u202e.jsonl", lines.encode())
        page = tmp_path / "\x1b[2J.html"
        _, shown, err = run("diagnose", path, "--html", page)
        _, table, _ = run("prompts", path)
        html = page.read_text(encoding="utf-8")
        for text in (shown + err + table, html):
            assert "\x1b" not in text
            assert "\u202e" not in text
            assert "\x00" not in text
        assert "<script>alert" not in html


class TestOutput:
    @pytest.mark.parametrize(
        ("command", "option", "name"),
        [("diagnose", "--html", "a.html"), ("prompts", "--out", "a.csv")],
    )
    def test_a_special_file_is_never_replaced(self, run, tmp_path, command, option, name):
        good, pipe = written(tmp_path / "good.jsonl", GOOD), tmp_path / name
        os.mkfifo(pipe)
        assert "not a regular file" in refused(run(command, good, option, pipe))
        assert pipe.is_fifo()
        pipe.unlink()
        pipe.symlink_to("kept.csv" if command == "prompts" else "kept.html")
        assert run(command, good, option, pipe)[0] == 0
        assert pipe.is_symlink()
        assert pipe.stat().st_size

    @pytest.mark.parametrize("command", ["compare", "replay", "remedies"])
    def test_a_terminal_without_unicode(self, tmp_path, command):
        good = written(tmp_path / "good.jsonl", GOOD)
        names = {"compare": [good, good], "explain": [], "remedies": ["avspo"]}
        done = subprocess.run(
            [sys.executable, "-m", "buttress", command, *names.get(command, [good])],
            env=os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "40"},
            capture_output=True,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()

    @pytest.mark.parametrize("options", ["", "--json"])
    def test_a_closed_output(self, tmp_path, options):
        good = written(tmp_path / "good.jsonl", GOOD)
        command = f"exec {sys.executable} -m buttress diagnose {good} {options} >&-"
        done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b"")


class TestCalls:
    @pytest.mark.parametrize("size", ["0", "-1", "9" * 30, "1e9", ""])
    def test_group_sizes(self, run, tmp_path, size):
        good = written(tmp_path / "good.jsonl", GOOD)
        assert "size" in refused(run("diagnose", "--json", good, f"--group-size={size}"))

    @pytest.mark.parametrize("wrong", [None, 5, "x", b"x", object(), [], {}, [[]]])
    @pytest.mark.parametrize(
        "call",
        [
            bt.collapse_rate,
            bt.composition,
            bt.estimator,
            bt.estimator("grpo"),
            bt.estimator("avspo").load_state_dict,
            lambda wrong: bt.diagnose(bt.Groups.from_nested([[1, 0]]), select=[wrong]),
        ],
    )
    def test_python_calls_say_what_they_need(self, call, wrong):
        with pytest.raises(UsageError):
            call(wrong)

    @pytest.mark.parametrize("wrong", [None, 5, object()])
    def test_columns_that_are_none(self, wrong):
        with pytest.raises(UsageError):
            bt.Groups.from_nested([[1, 0], [0, 0]], correct=wrong)
        with pytest.raises(UsageError):
            bt.read({"group": ["a"], "reward": wrong})

    @pytest.mark.parametrize("wrong", [None, "x", [], {}, float("nan"), -1])
    def test_tolerances(self, wrong):
        with pytest.raises(UsageError):
            bt.Tolerance(atol=wrong)

    def test_shapes_and_sizes(self):
        for rewards in (np.zeros((2, 2, 2)), [[10**400, 1]], 5):
            with pytest.raises(UsageError):
                bt.Groups.from_nested(rewards)

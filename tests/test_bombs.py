"""Small files that unfold, and large ones, through the command line: in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib

import numpy as np
import polars as pl
import pytest

GOOD = "".join(
    json.dumps({"step": 1, "group": name, "reward": at % 2, "completion": f"{name}{at}"}) + "\n"
    for name in "ab"
    for at in range(4)
).encode()
MEMORY = 1 << 20  # KiB, of which the libraries take a fifth


# A process of its own starts the command: the peak of a child begins at that of its parent,
# and after some thousand tests that of pytest lies above the limit.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def diagnosed(path):
    """Return exit code, report (None without one), standard error; fail above the memory."""
    command = [sys.executable, "-m", "buttress", "diagnose", "--json", "--fail-on", "never"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command, str(path)], capture_output=True, text=True
    )
    *lines, peak = done.stderr.splitlines()
    err = "\n".join(lines)
    assert "Traceback" not in err
    assert int(peak) < MEMORY
    return done.returncode, json.loads(done.stdout) if done.stdout else None, err


def sparse(path, head, tail):
    """Write a gigabyte of zero bytes between two pieces, which takes no room on the disc."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(1 << 30, os.SEEK_CUR)
        file.write(tail)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_line_of_a_gigabyte(tmp_path, name):
    head, tail = GOOD + b'{"reward": 1, "completion": "', b'"}\n' + GOOD
    if name == "a.csv":
        head, tail = b"step,group,reward\n1,a,1\n1,a,0\n1,b,", b"\n1,a,1\n"
    code, found, _ = diagnosed(sparse(tmp_path / name, head, tail))
    assert code == 0
    assert found["source"]["rollouts"] == (16 if name == "a.jsonl" else 3)
    assert "MiB, left out" in found["problems"][0]["message"]


def test_a_trainer_state_of_a_gigabyte(tmp_path):
    sparse(tmp_path / "trainer_state.json", b'{"log_history": [{"step": 1, "loss": "', b'"}]}')
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    _, found, _ = diagnosed(tmp_path)
    assert found["source"]["rollouts"] == 8
    assert "held in memory" in found["problems"][0]["message"]


@pytest.mark.parametrize(
    ("name", "line"), [("a.jsonl", b""), ("a.jsonl", b"{x"), ("a.csv", b"1,a,1")]
)
def test_lines_without_an_end_in_a_small_file(tmp_path, name, line):
    good = GOOD if name == "a.jsonl" else b"step,group,reward\n1,a,1\n1,a,0\n" + 6 * b"1,b,1\n"
    packer = zlib.compressobj(9, wbits=31)
    packed = packer.compress(good)
    many = (line + b"\n") * ((1 << 24) // (len(line) + 1))
    packed += b"".join(packer.compress(many) for _ in range(16))
    path = tmp_path / f"{name}.gz"
    path.write_bytes(packed + packer.flush())
    code, found, _ = diagnosed(path)
    assert code == 0
    assert found["source"]["rollouts"] >= 8
    assert any("unpack it" in one["message"] for one in found["problems"])


def test_equal_lines_unpacked_are_all_read(tmp_path):
    rows = b"step,group,reward\n" + b"1,a,1\n1,a,0\n" * 600_000
    (tmp_path / "a.csv").write_bytes(rows)
    _, found, _ = diagnosed(tmp_path)
    assert found["source"]["rollouts"] == 1_200_000


def test_a_parquet_file_of_far_more_rows_than_bytes(tmp_path):
    rows = 6_000_000
    pl.DataFrame({"step": np.ones(rows), "reward": np.ones(rows)}).with_columns(
        group=pl.lit("a")
    ).write_parquet(tmp_path / "a.parquet")
    code, _, said = diagnosed(tmp_path)
    assert code == 2
    assert "6,000,000 rows in" in said


@pytest.mark.parametrize("column", ["completion", "prompt"])
def test_a_parquet_file_of_texts_that_unfold(tmp_path, column):
    texts = [one * (150 << 20) for one in "ab"]
    rows = {"step": [1, 1], "group": ["a", "a"], "reward": [0.0, 1.0], column: texts}
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet", compression="zstd")
    code, _, said = diagnosed(tmp_path)
    assert code == 2
    assert "300 MiB in" in said

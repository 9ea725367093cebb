"""Why a completion ended, in words, becomes `truncated`."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.logs import finish
from tests.logs.writing import jsonl, rollouts, write

REASONS = ["length", "stop", None, "max_tokens"]
EXPECTED = [1.0, 0.0, np.nan, 1.0]


def rows(column: str, reasons=REASONS) -> list[dict]:
    some = rollouts({"a": [0, 1, 1, 0]})
    return [row | {column: reason} for row, reason in zip(some, reasons, strict=True)]


@pytest.mark.parametrize("column", finish.COLUMNS)
@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet", "frame"])
def test_every_kind_of_file(tmp_path, column, kind):
    path, frame = tmp_path / f"a.{kind}", pl.DataFrame(rows(column))
    if kind == "csv":
        frame.write_csv(path)
    elif kind == "parquet":
        frame.write_parquet(path)
    else:
        data = jsonl(rows(column))
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    run = bt.read(frame if kind == "frame" else path)
    np.testing.assert_array_equal(run.groups.columns["truncated"], EXPECTED)
    assert run.problems == ()
    assert f"truncated: where {column} names the length cap" in run.source.inferred


def test_a_column_that_says_it_goes_first(tmp_path):
    some = [row | {"truncated": False} for row in rows("finish_reason")]
    run = bt.read(write(tmp_path / "a.jsonl", some))
    assert run.groups.columns["truncated"].tolist() == [0, 0, 0, 0]


def test_a_map_may_name_the_reasons(tmp_path):
    run = bt.read(write(tmp_path / "a.jsonl", rows("why")), map={"truncated": "why"})
    np.testing.assert_array_equal(run.groups.columns["truncated"], EXPECTED)


def test_reasons_of_odd_types_are_unknown(tmp_path):
    some = rows("finish_reason", ["stop", 3, ["length"], {"type": "length"}])
    run = bt.read(write(tmp_path / "a.jsonl", some))
    np.testing.assert_array_equal(run.groups.columns["truncated"], [0, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("reason", "cut"),
    [
        ("FinishReason.LENGTH", True),
        (" Stop ", False),
        ("eos_token", False),
        ("", None),
        ("unknown", None),
        (float("nan"), None),
        (True, None),
    ],
)
def test_spellings(reason, cut):
    assert finish.truncated(reason) is cut

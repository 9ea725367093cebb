"""Frames in memory read like the files that they would be written to."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.errors import InputError, UsageError
from tests.helpers import require

ROWS = [
    {"step": 1, "group": "a", "prompt": "p", "completion": "x", "reward": 1.0, "length": 3},
    {"step": 1, "group": "a", "prompt": "p", "completion": "", "reward": None, "length": None},
    {"step": 1, "group": "b", "prompt": "q", "completion": None, "reward": 0.0, "length": 5},
    {"step": 2, "group": "b", "prompt": "q", "completion": "y", "reward": -1.0, "length": 6},
    {"step": 2, "group": "b", "prompt": None, "completion": "y", "reward": 2.5, "length": 7},
]


def pandas_frame(**dtypes):
    """Return the rows as a pandas frame."""
    return require("pandas").DataFrame(ROWS).astype(dtypes)


def check(run) -> None:
    """Compare a run with the rows."""
    groups = run.groups
    assert groups.sizes.tolist() == [2, 1, 2]
    assert groups.step.tolist() == [1, 1, 2]
    assert groups.group_id.tolist() == ["a", "b", "b"]
    np.testing.assert_array_equal(groups.rewards, [1, np.nan, 0, -1, 2.5])
    np.testing.assert_array_equal(groups.column("length"), [3, np.nan, 5, 6, 7])
    assert groups.prompt.tolist() == [0, 1, 1]
    assert run.texts([3, 1, 2, 4]) == [("q", "y"), ("p", ""), ("q", ""), ("", "y")]
    assert run.problems == ()
    assert run.source.format == "frame"


@pytest.mark.parametrize(
    "frame",
    [
        lambda: ROWS,
        lambda: tuple(ROWS),
        lambda: {name: [row[name] for row in ROWS] for name in ROWS[0]},
        lambda: pl.DataFrame(ROWS),
        lambda: pl.DataFrame(ROWS).lazy(),
        pandas_frame,
        lambda: pandas_frame(reward="Float64", length="Int64", prompt="string", group="category"),
        lambda: pandas_frame().convert_dtypes(),
        lambda: pandas_frame().set_index(["step", "group"]),
        lambda: pandas_frame().set_index(np.arange(5) * 7),
    ],
)
def test_every_kind_of_frame_is_the_same_run(frame):
    check(bt.read(frame()))


def test_equal_prompts_have_equal_identities_in_every_frame():
    labels = [
        bt.read(frame).groups.prompt_id.tolist()
        for frame in (ROWS, pl.DataFrame(ROWS), pandas_frame())
    ]
    assert labels[0] == labels[1] == labels[2]


def test_columns_with_other_names():
    frame = pandas_frame().rename(columns={"reward": "points", "group": "uid"})
    run = bt.read(frame, map={"reward": "points"})
    assert run.groups.rewards[0] == 1.0
    assert any("uid" in sentence for sentence in run.source.inferred)
    with pytest.raises(UsageError, match="no column ponts"):
        bt.read(pandas_frame(), map={"reward": "ponts"})


def test_values_of_the_wrong_type_are_unknown_and_named():
    rows = [
        {"group": 1, "reward": "0.5"},
        {"group": 1, "reward": "bad"},
        7,
        {"group": 1, "reward": {"a": 1}},
        {"group": 1},
    ]
    run = bt.read(rows)
    np.testing.assert_array_equal(run.groups.rewards, [0.5, np.nan, np.nan, np.nan])
    lines = {problem.line: problem.message for problem in run.problems}
    assert "'bad'" in lines[2]
    assert "int instead of a dict" in lines[3]
    assert "dict" in lines[4]
    assert run.facts.unreadable == 1


def test_arrays_and_tensors_as_columns():
    table = {"reward": np.array([1, 0, 1, 1], dtype=np.float32), "group": np.array([0, 0, 1, 1])}
    assert bt.collapse_rate(bt.read(table).groups) == 0.5
    with pytest.raises(UsageError, match="one length"):
        bt.read({"reward": [1, 2], "group": [1]})


def test_a_log_history_is_metrics():
    history = [{"step": 1, "loss": 0.5, "grad_norm": 1.0}, {"step": 2, "loss": None}]
    for frame in (history, pl.DataFrame(history), require("pandas").DataFrame(history)):
        run = bt.read(frame)
        assert len(run.groups) == 0
        np.testing.assert_array_equal(run.scalars["loss"].value, [0.5, np.nan])


def test_frames_that_hold_nothing():
    for frame in (pl.DataFrame({"a": [1]}), [{"a": 1}], pl.DataFrame()):
        with pytest.raises(InputError, match="reward"):
            bt.read(frame)
    with pytest.raises(InputError, match="Polars"):
        bt.read(pl.DataFrame(ROWS).lazy().select("nothing"))


def test_chat_messages_in_a_frame():
    chat = [{"role": "user", "content": "hi"}]
    rows = [{"prompt": chat, "completion": chat, "reward": reward} for reward in (0, 1)]
    for frame in (rows, pl.DataFrame(rows), require("pandas").DataFrame(rows)):
        run = bt.read(frame)
        assert run.groups.sizes.tolist() == [2]
        assert run.texts([0]) == [("hi", "hi")]

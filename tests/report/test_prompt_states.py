"""The state of each prompt, from rewards and from files, and what to do with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from buttress.groups import Groups, Run
from buttress.report.prompt_rows import prompt_rows
from buttress.rules import Case


def states(groups):
    case = Case(groups if isinstance(groups, Run) else Run(groups))
    return {row["prompt_id"]: (row["state"], row["advice"]) for row in prompt_rows(case)}


def course(*wins, size=8):
    """Groups of one prompt, step by step, with so many successes each."""
    return [[1] * k + [0] * (size - k) for k in wins]


def one(*wins, size=8):
    nested = course(*wins, size=size)
    groups = Groups.from_nested(nested, prompt_id=["p"] * len(nested), step=range(len(nested)))
    return states(groups)["p"]


@pytest.mark.parametrize(
    ("wins", "expected"),
    [
        ((0, 0, 0), ("never solved", "hold")),
        ((0, 0, 1), ("learning", "keep")),
        ((0, 4, 8), ("mastered", "drop")),
        ((8, 8, 7), ("learning", "keep")),
        ((8, 8, 8, 0, 0, 0), ("lost", "keep")),
        ((0, 0, 8, 8, 0, 0), ("lost", "keep")),
        ((0, 0, 8, 8, 0, 8), ("mastered", "drop")),
        ((4, 4, 0, 0), ("learning", "keep")),
    ],
)
def test_states_of_one_prompt(wins, expected):
    assert one(*wins) == expected


def test_mastered_needs_the_latest_eight_rollouts():
    assert one(0, 2, 2, 2, 2, size=2)[0] == "mastered"
    assert one(0, 2, 2, 2, size=2)[0] == "learning"


def test_rewards_of_any_scale():
    won = np.repeat([[0.0], [1.0]], 8, axis=1)
    for scale in (won, 2 * won - 1):
        mixed = np.concatenate([scale, scale[:, ::-1]])
        found = states(Groups.from_dense(mixed, prompt_id=["never", "always"] * 2))
        assert found["never"][0] == "never solved"
        assert found["always"][0] == "mastered"


def test_the_second_id_of_a_text_is_a_duplicate():
    groups = Groups.from_nested(
        course(4, 4, 4),
        prompt_id=["a", "b", "c"],
        prompt=[["one text"] * 8, ["another"] * 8, ["one text"] * 8],
    )
    assert states(groups) == {
        "a": ("learning", "keep"),
        "b": ("learning", "keep"),
        "c": ("duplicated", "drop"),
    }
    rows = {row["prompt_id"]: row["duplicate_of"] for row in prompt_rows(Case(Run(groups)))}
    assert rows == {"a": None, "b": None, "c": "a"}


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_duplicates_in_files(tmp_path, suffix):
    rows = [
        {"step": s, "prompt_id": name, "prompt": text, "reward": s % 2}
        for name, text in (("a", "x + 1 = 2?"), ("b", "2 + 2?"), ("c", "x + 1 = 2?"))
        for s in (1, 2)
        for _ in range(4)
    ]
    path = tmp_path / f"rollouts.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]))
    found = states(bt.read(path))
    assert {name: state for name, (state, _) in found.items()} == {
        "a": "learning",
        "b": "learning",
        "c": "duplicated",
    }


def test_without_texts_nothing_is_a_duplicate(tmp_path):
    rows = [{"prompt": "same", "group": g, "reward": s} for g in range(3) for s in (0, 1)]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [state for state, _ in states(bt.read(path)).values()] == ["learning"]


def test_prompts_without_a_reward_are_not_scored():
    groups = Groups.from_nested([[None] * 4, [0, 1]], prompt_id=["a", "b"])
    assert states(groups)["a"] == ("not scored", "keep")

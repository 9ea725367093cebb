"""Pickled dumps are refused, and what the refusal says to do works."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

import buttress as bt
from buttress.errors import InputError
from buttress.logs.formats import pickles
from tests.logs.writing import rollouts, write


def sample(group: int, index: int, reward: float) -> dict:
    return {
        "group_index": group,
        "index": index,
        "prompt": f"p{group}",
        "tokens": [1, 2, 3],
        "response": f"r{index}",
        "response_length": 2,
        "reward": reward,
        "status": "truncated" if index % 2 else "completed",
    }


@pytest.mark.trl
def test_the_command_for_slime_exports_its_dump(tmp_path):
    torch = pytest.importorskip("torch")
    for step in (0, 1):
        samples = [sample(2 * step + at // 2, at, at % 2) for at in range(4)]
        torch.save({"rollout_id": step, "samples": samples}, tmp_path / f"{step}.pt")
    with pytest.raises(InputError) as refused:
        bt.read(tmp_path)
    command = str(refused.value).partition("this does: ")[2].partition(" *.pt")[0]
    words = shlex.split(command)
    assert words[:2] == ["python", "-c"]
    done = subprocess.run(
        [sys.executable, "-c", words[2], tmp_path / "0.pt", tmp_path / "1.pt"],
        capture_output=True,
        check=True,
    )
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(done.stdout)
    run = bt.read(path)
    assert run.problems == ()
    assert run.groups.step.tolist() == [0, 0, 1, 1]
    assert run.groups.sizes.tolist() == [2, 2, 2, 2]
    assert run.groups.rewards.tolist() == [0, 1] * 4
    assert run.groups.columns["truncated"].tolist() == [0, 1] * 4
    assert run.groups.columns["length"].tolist() == [2] * 8


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dumped_data/global_step_7_training_input.pkl", pickles.SKYRL),
        ("rollout_data/eval_3.pt", pickles.SLIME),
        ("12.pt", pickles.SLIME),
        ("model.pt", None),
        ("batch.pkl", None),
    ],
)
def test_each_writer_has_its_own_advice(tmp_path, name, expected):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x80\x04anything")
    write(tmp_path / "a.jsonl", rollouts({"a": [0, 1]}))
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 2
    (problem,) = run.problems
    assert problem.file == str(path)
    assert "not opened" in problem.message
    for other in (pickles.SKYRL, pickles.SLIME):
        assert (other in problem.message) == (other == expected)

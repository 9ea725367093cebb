"""trainer_state.json: metrics of a run, alone, in checkpoints, damaged; case A2."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError

DATA = Path(__file__).parent / "data"
STATE = DATA / "trl_plain" / "checkpoint-6" / "trainer_state.json"


def write(path: Path, history: list, **more) -> Path:
    """Write a state, as the trainer does (NaN included)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"log_history": history, **more}, indent=2, sort_keys=True))
    return path


def healthy_but_loss_zero() -> list[dict]:
    """Return case A2: 20 lines of loss 0.0 with live gradients and groups."""
    rng = np.random.default_rng(0)
    return [
        {
            "step": step,
            "epoch": step / 20,
            "loss": 0.0,
            "grad_norm": float(rng.uniform(0.08, 0.11)),
            "reward": float(rng.uniform(0.4, 0.6)),
            "reward_std": float(rng.uniform(0.5, 0.8)),
            "frac_reward_zero_std": float(rng.uniform(0.0, 0.1)),
        }
        for step in range(1, 21)
    ]


@pytest.mark.parametrize("place", ["trainer_state.json", "checkpoint-20", "run"])
def test_case_a2_loss_zero_is_not_collapse(tmp_path, place):
    path = write(tmp_path / "run" / "checkpoint-20" / "trainer_state.json", healthy_but_loss_zero())
    target = {"trainer_state.json": path, "checkpoint-20": path.parent, "run": tmp_path / "run"}
    run = bt.read(target[place])
    assert (len(run.groups), run.source.format, run.problems) == (0, "trl", ())
    findings = {finding.rule: finding for finding in bt.diagnose(run).findings}
    assert findings["loss-zero-normal"].severity.name == "INFO"
    assert not {"advantage-collapse", "update-lost"} & set(findings)


def test_case_a2_through_the_command_line(tmp_path, capsys):
    path = write(tmp_path / "trainer_state.json", healthy_but_loss_zero())
    with pytest.raises(SystemExit) as done:
        main(["diagnose", str(path), "--json"])
    assert done.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert report["source"]["format"] == "trl"
    assert report["measures"]["acr"] is None
    found = {finding["rule"]: finding["severity"] for finding in report["findings"]}
    assert found["loss-zero-normal"] == "info"


def test_the_real_file():
    run = bt.read(STATE)
    assert run.scalar("loss").step.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.scalar("completions/clipped_ratio").value.max() <= 1
    assert "step" not in run.scalars


def test_the_state_that_goes_furthest_counts_once(tmp_path):
    history = healthy_but_loss_zero()
    for step in (5, 10, 9):
        path = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        write(path, history[:step])
    run = bt.read(tmp_path)
    assert run.scalar("loss").step.tolist() == list(range(1, 11))
    assert any("checkpoint-10" in sentence for sentence in run.source.inferred)
    write(tmp_path / "trainer_state.json", history[:7])  # a first run's end, resumed since
    assert len(bt.read(tmp_path).scalar("loss").step) == 10
    write(tmp_path / "trainer_state.json", history)
    assert len(bt.read(tmp_path).scalar("loss").step) == 20


def test_a_broken_checkpoint_falls_back_to_an_older_one(tmp_path):
    for step in (5, 10):
        path = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        write(path, healthy_but_loss_zero()[:step])
    path.write_text(path.read_text()[:400])
    run = bt.read(tmp_path)
    assert len(run.scalar("loss").step) == 5
    (problem,) = run.problems
    assert (Path(problem.file).parent.name, problem.line > 1) == ("checkpoint-10", True)


def test_null_nan_and_what_is_no_number(tmp_path):
    history = [
        {"step": 1, "loss": math.nan, "reward": None, "note": "text"},
        {"step": 2, "loss": math.inf, "reward": 0.5},
        {"step": 3.0, "loss": "0.25", "reward": True},
        {"loss": 1.0},
        7,
        {"step": "x", "loss": 1.0},
    ]
    run = bt.read(write(tmp_path / "trainer_state.json", history))
    np.testing.assert_array_equal(run.scalars["loss"].value[[0, 2]], [math.nan, 0.25])
    np.testing.assert_array_equal(run.scalars["reward"].value, [math.nan, 0.5, 1.0])
    messages = [problem.message for problem in run.problems]
    assert [f"log_history[{at}]" in messages[at - 3] for at in (3, 4, 5)] == [True] * 3
    assert "note" in messages[3]


def test_two_runs_keep_their_own_latest(tmp_path):
    shutil.copytree(DATA / "trl_plain", tmp_path / "a")
    shutil.copytree(DATA / "trl_constant", tmp_path / "b")
    run = bt.read([tmp_path / "a" / "checkpoint-6", tmp_path / "b" / "checkpoint-2"])
    assert len(run.source.paths) == 2


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"log_history": 3}', b"\xff\xff", b"[" * 9999])
def test_files_that_hold_nothing(tmp_path, data):
    path = tmp_path / "trainer_state.json"
    path.write_bytes(data)
    run = bt.read(path)
    assert run.scalars == {}
    assert [Path(problem.file) for problem in run.problems] == [path]


@pytest.mark.parametrize(("data", "why"), [(b"", "empty"), (b"\xff\xfe[\0", "UTF-16")])
def test_a_state_that_is_no_text(tmp_path, data, why):
    path = tmp_path / "trainer_state.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=why):
        bt.read(path)


def test_another_json_file(tmp_path):
    (tmp_path / "config.json").write_text('{"a": 1}')
    with pytest.raises(InputError):
        bt.read(tmp_path)


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(1, len(STATE.read_bytes().rstrip()) - 1))
def test_no_cut_ends_in_a_traceback(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "trainer_state.json"
    path.write_bytes(STATE.read_bytes()[:cut])
    assert bt.read(path).problems

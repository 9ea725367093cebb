"""The directory of a run: whose it is, where it goes on, what is torn."""

from __future__ import annotations

import json

import pytest

from buttress.errors import UsageError
from buttress.train import folder
from buttress.train.rollout_log import _append, cut_back

RECORD = {"seed": 1, "steps": 6, "out": "a"}


def examine(out, record=RECORD, *, resume=False, accept=False):
    return folder.examine(out, record, steps=6, resume=resume, accept=accept)


def checkpoint(out, step, size=0):
    place = out / f"checkpoint-{step}"
    place.mkdir()
    folder.mark(place, RECORD, size)
    return place


@pytest.fixture
def run(tmp_path):
    """A claimed directory with two checkpoints."""
    out = tmp_path / "run"
    assert examine(out) == folder.Start()
    folder.claim(out, RECORD)
    checkpoint(out, 2, 20)
    checkpoint(out, 10, 100).rename(out / "checkpoint-4")
    return out


def test_a_fresh_or_empty_directory_is_taken(tmp_path):
    assert examine(tmp_path).checkpoint is None
    assert "anew" in examine(tmp_path / "new", resume=True).notes[0]


def test_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="not empty and holds no training of ours"):
        examine(tmp_path)
    with pytest.raises(UsageError, match="not empty"):
        examine(tmp_path / "thesis.tex", resume=True)


def test_the_last_complete_checkpoint_is_taken(run):
    start = examine(run, resume=True)
    assert (start.step, start.checkpoint, start.log_size) == (4, run / "checkpoint-4", 100)
    assert not start.done
    checkpoint(run, 6)
    assert examine(run, resume=True).done


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_torn_checkpoint_is_passed_over_and_named(run, damage):
    mark = run / "checkpoint-4" / folder.RECORD
    if damage == "missing":
        mark.unlink()
    else:
        mark.write_text(mark.read_text()[:30] if damage == "cut" else "{}")
    start = examine(run, resume=True)
    assert start.step == 2
    assert any("checkpoint-4: not completely written" in note for note in start.notes)


def test_without_any_complete_checkpoint_the_run_starts_anew(run):
    for step in (2, 4):
        (run / f"checkpoint-{step}" / folder.RECORD).unlink()
    start = examine(run, resume=True)
    assert (start.checkpoint, start.log_size) == (None, 0)
    assert "starts it anew" in folder.last_checkpoint(run)


def test_other_settings_need_to_be_accepted(run):
    other = RECORD | {"seed": 2, "out": "b"}
    with pytest.raises(UsageError, match="seed: 1 then, 2 now") as fault:
        examine(run, other, resume=True)
    assert "out:" not in str(fault.value)
    start = examine(run, other, resume=True, accept=True)
    assert start.step == 4
    assert "seed: 1 then, 2 now" in start.notes[0]


def test_a_record_is_never_half_written(tmp_path):
    folder.write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError):
        folder.write_json(tmp_path / "x.json", {"a": object()})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 1}
    (tmp_path / folder.RECORD).write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        examine(tmp_path)


def test_a_log_is_cut_back_and_the_rest_kept(tmp_path):
    log = tmp_path / "rollouts.jsonl"
    assert cut_back(log, 0, 2) is None
    _append(log, b"one\n")
    _append(log, b"two\n")
    assert cut_back(log, 8, 2) is None
    aside = cut_back(log, 4, 2)
    assert log.read_bytes() == b"one\n"
    assert aside.read_bytes() == b"two\n"
    assert aside.suffix == ".bak"

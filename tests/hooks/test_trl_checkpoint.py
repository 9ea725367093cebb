"""The remedy's state travels with the trainer's checkpoints."""

from __future__ import annotations

import json

import pytest

from buttress.hooks.trl import attach
from tests.helpers import require
from tests.hooks import tiny

require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

# a reward of 2 in the first step only: the levels of the run must outlive a resume
TABLE = tiny.table(11, 6, 8)
REWARDS = tiny.Script([[2.0, *TABLE[0][1:]], *TABLE[1:]])


def build(folder, **settings):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3} | settings
    trainer = tiny.trainer(folder, REWARDS, **settings)
    return attach(trainer, "avspo", threshold_rate=0.5)


def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path):
    straight = build(tmp_path)
    outputs = tiny.watch(straight)
    straight.train()
    final = straight._buttress.estimator.state_dict()

    resumed = build(tmp_path)
    again = tiny.watch(resumed)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed._buttress.estimator.state_dict() == final
    assert resumed._buttress.generations == straight._buttress.generations == 6
    assert resumed._buttress.levels == straight._buttress.levels == (0, 2)
    for first, second in zip(outputs[3:], again, strict=True):
        torch.testing.assert_close(first["advantages"], second["advantages"])

    # without the state the end differs, so that the above is not vacuous
    (tmp_path / "checkpoint-3" / "buttress_state.json").unlink()
    fresh = build(tmp_path)
    fresh.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert fresh._buttress.estimator.state_dict() != final


def test_the_state_file_is_plain_json(tmp_path):
    build(tmp_path, max_steps=3).train()
    text = (tmp_path / "checkpoint-3" / "buttress_state.json").read_text()
    state = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert state["schema"] == 1
    assert state["generations"] == 3
    assert state["estimator"]["estimator"] == "Avspo"
    assert len(state["levels"]) == 2


def test_unscorable_runs_save_plain_json_too(tmp_path):
    trainer = tiny.trainer(
        tmp_path, tiny.Script([[None] * 8]), max_steps=1, save_strategy="steps", save_steps=1
    )
    attach(trainer, "avspo").train()
    text = (tmp_path / "checkpoint-1" / "buttress_state.json").read_text()
    state = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert state["levels"] == [None, None]


@pytest.mark.parametrize("damage", ["missing", "torn", "other"])
def test_a_checkpoint_without_our_state_starts_afresh_with_one_warning(tmp_path, caplog, damage):
    build(tmp_path, max_steps=3).train()
    path = tmp_path / "checkpoint-3" / "buttress_state.json"
    if damage == "missing":
        path.unlink()
    elif damage == "torn":
        path.write_text(path.read_text()[:20])
    else:
        path.write_text(path.read_text().replace("Avspo", "Dcpo"))
    caplog.clear()
    trainer = build(tmp_path)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert trainer.state.global_step == 6
    warned = [line for line in caplog.records if line.name == "buttress.hooks"]
    assert len(warned) == 1
    assert "resume its state" in warned[0].getMessage()


def test_only_the_process_that_saves_writes_the_state(tmp_path, monkeypatch):
    trainer = build(tmp_path)
    (tmp_path / "checkpoint-0").mkdir()
    for saves in (False, True):
        monkeypatch.setattr(type(trainer.args), "should_save", saves)
        trainer._buttress.save(trainer, None)
        assert (tmp_path / "checkpoint-0" / "buttress_state.json").exists() is saves

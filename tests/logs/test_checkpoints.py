"""Saved models in a run's directory are passed over in silence; everything else is still said."""

from __future__ import annotations

import json

import pytest

import buttress as bt

ROW = json.dumps({"step": 1, "group": "a", "reward": 1.0}) + "\n"
SAVED = ("model.safetensors", "config.json", "tokenizer.json", "optimizer.pt", "rng_state_0.pth")


@pytest.mark.parametrize("folder", ["model", "checkpoint-30", "run/checkpoint-4", "global_step_7"])
def test_saved_weights_are_no_problem(folder, tmp_path):
    (tmp_path / "rollouts.jsonl").write_text(ROW * 2)
    (tmp_path / folder).mkdir(parents=True)
    for name in SAVED:
        (tmp_path / folder / name).write_bytes(b"\x80\x02 not read")
    run = bt.read(tmp_path)
    assert run.groups.n_samples == 2
    assert run.problems == ()


def test_a_pickle_that_is_no_checkpoint_is_still_refused(tmp_path):
    (tmp_path / "rollouts.jsonl").write_text(ROW * 2)
    (tmp_path / "dump.pt").write_bytes(b"\x80\x02")
    (tmp_path / "config.json").write_text("{}")
    said = {problem.file.rsplit("/", 1)[-1] for problem in bt.read(tmp_path).problems}
    assert said == {"dump.pt", "config.json"}

"""Metrics, trackers, the completions table, evaluation and the monitor."""

from __future__ import annotations

import json
import math
from collections import deque
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from buttress.groups import check_grouping
from buttress.hooks.trl import attach
from buttress.hooks.trl.logs import rewrite_advantages
from buttress.logs.prose import text_digest
from buttress.measures import collapse_rate, composition
from tests.helpers import require
from tests.hooks import tiny

require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

# all wrong + mixed; mixed + all correct; all wrong + all correct; unscorable + all wrong
ROWS = [
    [0.0] * 4 + [1.0, 0.0, 0.0, 1.0],
    [1.0, 0.0, 1.0, 1.0] + [1.0] * 4,
    [0.0] * 4 + [1.0] * 4,
    [None] * 4 + [0.0] * 4,
]


class Notes:
    """A monitor that keeps what it is given."""

    def __init__(self):
        self.seen = []

    def update(self, groups, *, step):
        self.seen.append((step, groups))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run that logs everything everywhere."""
    folder = tmp_path_factory.mktemp("run")
    trainer = tiny.trainer(
        folder,
        tiny.Script(ROWS),
        kind=tiny.recorder(),
        max_steps=4,
        report_to="tensorboard",
        log_completions=True,
        num_completions_to_print=0,
        eval_strategy="steps",
        eval_steps=2,
        num_generations_eval=2,
        save_strategy="steps",
        save_steps=4,
    )
    trainer.eval_dataset = trainer.eval_dataset.select(range(4))
    notes = Notes()
    outputs = tiny.watch(attach(trainer, "avspo", notes, threshold=0.6))
    trainer.train()
    return trainer, notes, outputs, folder


def test_metrics_say_what_happened(run):
    trainer = run[0]
    assert tiny.logged(trainer, "buttress/acr") == [0.5, 0.5, 1.0, 1.0]
    assert tiny.logged(trainer, "buttress/all_wrong") == [0.5, 0.0, 0.5, 1.0]
    assert tiny.logged(trainer, "buttress/all_correct") == [0.0, 0.5, 0.5, 0.0]
    assert tiny.logged(trainer, "buttress/acr_after") == [0.5, 0.5, 0.0, 0.0]
    assert tiny.logged(trainer, "buttress/triggered") == [0.0, 0.0, 1.0, 1.0]
    assert tiny.logged(trainer, "buttress/threshold") == [0.6] * 4
    assert tiny.logged(trainer, "buttress/K") == [0, 0, 4, 4]
    assert tiny.logged(trainer, "buttress/unscorable") == [0, 0, 0, 4]
    assert tiny.logged(trainer, "buttress/fallback") == [0.0] * 4


def test_tensorboard_has_the_metrics(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = run[0]
    (events,) = run[3].rglob("events.out.tfevents.*")
    read = EventAccumulator(str(events), size_guidance={"scalars": 0}).Reload()
    for name in ("acr", "all_wrong", "all_correct", "acr_after", "threshold", "K", "fallback"):
        scalars = read.Scalars(f"train/buttress/{name}")
        assert [scalar.value for scalar in scalars] == pytest.approx(
            tiny.logged(trainer, f"buttress/{name}")
        )
        assert [scalar.step for scalar in scalars] == [1, 2, 3, 4]
    assert [scalar.value for scalar in read.Scalars("eval/buttress/acr")] == pytest.approx(
        tiny.logged(trainer, "eval_buttress/acr")
    )


def test_saved_log_history_has_the_metrics(run):
    lines = json.loads((run[3] / "checkpoint-4" / "trainer_state.json").read_text())["log_history"]
    found = [line["buttress/acr"] for line in lines if "buttress/acr" in line]
    assert found == [0.5, 0.5, 1.0, 1.0]


def test_evaluation_reports_but_replaces_nothing(run):
    trainer, notes, outputs, _ = run
    # rows of a step as groups of 2: the script is read at steps 2 and 4
    assert len(tiny.logged(trainer, "eval_buttress/acr")) == 2
    assert tiny.logged(trainer, "eval_buttress/acr")[0] == 1.0
    assert tiny.logged(trainer, "eval_buttress/all_wrong")[0] == 0.5
    assert not tiny.logged(trainer, "eval_buttress/acr_after")
    assert not tiny.logged(trainer, "eval_buttress/threshold")
    for at in (2, 5):
        assert torch.equal(outputs[at]["advantages"], trainer.own[at])
    assert outputs[5]["advantages"].any()
    assert len(notes.seen) == 4
    assert trainer._buttress.generations == 6
    assert trainer._buttress.estimator.state_dict()["steps"] == 4


def test_completions_table_names_its_groups(run):
    trainer, _, outputs, folder = run
    # the evaluations after steps 2 and 4 write over the files of these steps
    for step, at in ((1, 0), (3, 3)):
        table = pl.read_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
        assert table["buttress_group"].to_list() == [f"train-{at}-{n // 4}" for n in range(8)]
        assert table["buttress_reward"].to_list() == ROWS[step - 1]
        advantages = outputs[at]["advantages"].tolist()
        assert table["advantage"].to_list() == pytest.approx(advantages)
        for column, name in (("length", "mean_length"), ("truncated", "clipped_ratio")):
            found = table[f"buttress_{column}"].mean()
            assert found == pytest.approx(tiny.logged(trainer, f"completions/{name}")[step - 1])
    table = pl.read_parquet(folder / "completions" / "completions_00002.parquet")
    assert table["buttress_group"].to_list() == [f"eval-2-{n // 2}" for n in range(8)]


def test_monitor_gets_whole_groups(run):
    _, notes, outputs, _ = run
    assert [step for step, _ in notes.seen] == [1, 2, 3, 4]
    for (step, groups), at in zip(notes.seen, (0, 1, 3, 4), strict=True):
        assert groups.step.tolist() == [step, step]
        assert groups.sizes.tolist() == [4, 4]
        assert groups.has_prompts
        assert check_grouping(groups) == []
        np.testing.assert_array_equal(groups.columns["advantage"], outputs[at]["advantages"])
        assert set(groups.columns) == {
            "advantage",
            "length",
            "prompt",
            "reward/script",
            "truncated",
        }
    assert [collapse_rate(groups) for _, groups in notes.seen] == [0.5, 0.5, 1.0, 1.0]
    assert composition(notes.seen[3][1])["unscorable"] == 1


def test_prompts_keep_their_identity_over_steps(tmp_path):
    notes = Notes()
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), prompts=("1+1=", "2+2="), max_steps=4)
    attach(trainer, "grpo", notes)
    trainer.train()
    ids = [sorted(groups.prompt_id) for _, groups in notes.seen]
    assert ids == [sorted(map(text_digest, ("1+1=", "2+2=")))] * 4


def test_unknown_is_null_and_never_zero(tmp_path):
    trainer = attach(tiny.trainer(tmp_path, tiny.Script([[None] * 8]), max_steps=1), "grpo")
    trainer.train()
    for name in ("acr", "all_wrong", "all_correct", "acr_after"):
        assert tiny.logged(trainer, f"buttress/{name}") == [None]


def test_levels_are_those_of_the_run(tmp_path):
    """With rewards 0 and 2, a batch of twos alone is all correct once a 0 was seen."""
    rows = [[2.0] * 8, [0.0] * 4 + [2.0] * 4, [2.0] * 8]
    trainer = attach(tiny.trainer(tmp_path, tiny.Script(rows)), "grpo")
    trainer.train()
    assert tiny.logged(trainer, "buttress/all_correct") == [0.0, 0.5, 1.0]


def test_logging_steps_average(tmp_path):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), max_steps=4, logging_steps=2)
    attach(trainer, "grpo").train()
    assert tiny.logged(trainer, "buttress/acr") == [0.5, 1.0]


def test_table_stays_in_step_after_a_late_attach_and_beside_users_columns(tmp_path):
    def reward(completions, log_extra, trainer_state, **kwargs):
        log_extra("mine", list(range(len(completions))))
        return ROWS[trainer_state.global_step][: len(completions)]

    # half of the deque is from before, so that a short column would break TRL's table
    trainer = tiny.trainer(
        tmp_path,
        reward,
        log_completions=True,
        num_completions_to_print=0,
        max_steps=1,
        num_generations_eval=4,
        per_device_eval_batch_size=4,
    )
    trainer.eval_dataset = trainer.eval_dataset.select(range(1))
    trainer.evaluate()
    attach(trainer, "grpo")
    trainer.evaluate()
    table = pl.read_parquet(tmp_path / "completions" / "completions_00000.parquet")
    assert table["buttress_group"].to_list() == [None] * 4 + ["eval-0-0"] * 4
    assert table["mine"].to_list() == [0, 1, 2, 3] * 2
    trainer.train()
    table = pl.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert table["buttress_group"].to_list() == ["train-1-0"] * 4 + ["train-1-1"] * 4


def test_no_columns_without_log_completions(tmp_path):
    trainer = attach(tiny.trainer(tmp_path, tiny.Script(ROWS), max_steps=1), "grpo")
    trainer.train()
    assert not trainer._logs["extra"]


def test_logged_advantages_are_those_of_the_training(tmp_path):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), max_steps=3)
    outputs = tiny.watch(attach(trainer, "avspo", threshold="always"))
    trainer.train()
    assert list(trainer._logs["advantages"]) == pytest.approx(outputs[2]["advantages"].tolist())
    assert all(not math.isclose(value, 0) for value in trainer._logs["advantages"])


def test_truncated_rows_keep_their_length_when_masked(tmp_path):
    notes = Notes()
    trainer = tiny.trainer(
        tmp_path, tiny.Script(ROWS), mask_truncated_completions=True, max_steps=1
    )
    attach(trainer, "grpo", notes)
    trainer.train()
    groups = notes.seen[0][1]
    assert groups.columns["truncated"].any()
    assert (groups.columns["length"][groups.columns["truncated"]] == 6).all()


def test_only_the_advantages_of_the_last_generation_are_rewritten():
    entries = deque([1, 2, 3, 4], maxlen=6)
    trainer = SimpleNamespace(_logs={"advantages": entries})
    rewrite_advantages(trainer, [7, 8])
    assert list(entries) == [1, 2, 7, 8]
    rewrite_advantages(trainer, [5] * 5)
    assert list(entries) == [5] * 5

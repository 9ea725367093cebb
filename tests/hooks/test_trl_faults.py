"""Nothing of ours ends a training run: each fault is one warning, and TRL's advantages go on."""

from __future__ import annotations

import logging

import polars as pl
import pytest

from buttress.hooks.trl import attach
from buttress.hooks.trl import rollouts as trl_rollouts
from buttress.remedies import estimator
from tests.helpers import require
from tests.hooks import tiny

trl = require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

ROWS = tiny.Script([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])


class Broken:
    """An estimator that gives what it is told to, from the second step on."""

    def __init__(self, answer):
        self.answer, self.calls, self.reading = answer, 0, {}

    def __call__(self, groups):
        self.calls += 1
        return estimator("avspo", threshold="always")(groups) if self.calls == 1 else self.answer()

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def boom():
    raise ZeroDivisionError("an estimator's fault")


def warnings_of(caplog):
    return [line for line in caplog.records if line.name == "buttress.hooks"]


def train(trainer, remedy, monitor=None, **options):
    outputs = tiny.watch(attach(trainer, remedy, monitor, **options))
    trainer.train()
    assert trainer.state.global_step == trainer.args.max_steps
    return outputs


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (boom, "an estimator's fault"),
        (lambda: torch.full((8,), float("nan")), "not finite"),
        (lambda: torch.full((8,), float("inf")), "not finite"),
        (lambda: torch.zeros(7), "shape (7,) for 8 rollouts"),
        (lambda: torch.zeros(2, 4, 1), "shape (2, 4, 1) for 8 rollouts"),
        (lambda: None, "compute advantages"),
        (lambda: "text", "compute advantages"),
    ],
)
def test_a_fault_of_the_estimator_is_one_warning(tmp_path, caplog, answer, message):
    caplog.set_level(logging.DEBUG, "buttress.hooks")
    trainer = tiny.trainer(
        tmp_path, ROWS, kind=tiny.recorder(), log_completions=True, num_completions_to_print=0
    )
    outputs = train(trainer, Broken(answer))
    assert not torch.equal(outputs[0]["advantages"], trainer.own[0])
    for own, output in zip(trainer.own[1:], outputs[1:], strict=True):
        assert torch.equal(output["advantages"], own)
    assert tiny.logged(trainer, "buttress/fallback") == [0.0, 1.0, 1.0]
    assert tiny.logged(trainer, "buttress/acr") == [0.5] * 3
    assert len(tiny.logged(trainer, "buttress/acr_after")) == 1
    warned, traced = warnings_of(caplog)
    assert (warned.levelno, traced.levelno) == (logging.WARNING, logging.DEBUG)
    assert message in warned.getMessage()
    assert "TRL's own advantages are used" in warned.getMessage()
    assert traced.exc_info
    table = pl.read_parquet(tmp_path / "completions" / "completions_00003.parquet")
    assert table["advantage"].to_list() == pytest.approx(trainer.own[2].tolist())
    assert table["buttress_group"].to_list() == ["train-2-0"] * 4 + ["train-2-1"] * 4


def test_a_fault_before_the_groups_leaves_the_table_whole(tmp_path, caplog, monkeypatch):
    calls = []

    def fails_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == 8 + 1:  # the first row of the second generation
            raise RuntimeError("no such prompt")
        return number(*args, **kwargs)

    number = trl_rollouts.prompt_number
    monkeypatch.setattr(trl_rollouts, "prompt_number", fails_once)
    trainer = tiny.trainer(
        tmp_path, ROWS, kind=tiny.recorder(), log_completions=True, num_completions_to_print=0
    )
    outputs = train(trainer, "avspo", threshold="always")
    used_own = [
        torch.equal(output["advantages"], own)
        for own, output in zip(trainer.own, outputs, strict=True)
    ]
    assert used_own == [False, True, False]
    assert tiny.logged(trainer, "buttress/fallback") == [0.0, 1.0, 0.0]
    (warned,) = warnings_of(caplog)
    assert "no such prompt" in warned.getMessage()
    tables = [
        pl.read_parquet(tmp_path / "completions" / f"completions_{step:05d}.parquet")
        for step in (1, 2, 3)
    ]
    assert [table["buttress_group"][0] for table in tables] == ["train-0-0", None, "train-1-0"]
    assert tables[1]["buttress_reward"].to_list() == [None] * 8


def test_a_trainer_that_scores_by_itself_falls_back(tmp_path, caplog):
    class Own(trl.GRPOTrainer):
        def _calculate_rewards(self, *args, **kwargs):
            raise AssertionError("not used")

        def _generate_and_score_completions(self, inputs):
            self._calculate_rewards = lambda *args: trl.GRPOTrainer._calculate_rewards(self, *args)
            return super()._generate_and_score_completions(inputs)

    trainer = tiny.trainer(tmp_path, ROWS, kind=Own, max_steps=2)
    train(trainer, "avspo")
    assert tiny.logged(trainer, "buttress/fallback") == [1.0, 1.0]
    (warned,) = warnings_of(caplog)
    assert "did not call _calculate_rewards" in warned.getMessage()


def test_a_fault_of_the_monitor_is_one_warning_and_the_remedy_goes_on(tmp_path, caplog):
    class Monitor:
        def update(self, groups, *, step):
            raise KeyError("monitor")

    trainer = tiny.trainer(tmp_path, ROWS, kind=tiny.recorder())
    outputs = train(trainer, "avspo", Monitor(), threshold="always")
    for own, output in zip(trainer.own, outputs, strict=True):
        assert not torch.equal(output["advantages"], own)
    (warned,) = warnings_of(caplog)
    assert "update the monitor" in warned.getMessage()


def test_a_fault_of_the_logging_is_one_warning_and_the_remedy_goes_on(tmp_path, caplog):
    class Moody(Broken):
        reading = property(lambda self: {"K": 1} if self.calls == 0 else boom(), lambda *_: None)

    trainer = tiny.trainer(tmp_path, ROWS, kind=tiny.recorder())
    outputs = train(trainer, Moody(lambda: torch.ones(8)))
    assert (outputs[1]["advantages"] == 1).all()
    (warned,) = warnings_of(caplog)
    assert "log its metrics" in warned.getMessage()


def test_groups_that_mix_prompts_are_said_once(tmp_path, caplog):
    class Shuffled(trl.GRPOTrainer):
        def _get_train_sampler(self, dataset=None):
            return torch.utils.data.SequentialSampler(dataset or self.train_dataset)

    trainer = tiny.trainer(tmp_path, ROWS, kind=Shuffled, max_steps=2)
    train(trainer, "grpo")
    (warned,) = warnings_of(caplog)
    assert "groups that mix prompts" in warned.getMessage()


def test_faults_of_the_user_still_end_the_run(tmp_path):
    def reward(**kwargs):
        raise ValueError("the user's own fault")

    trainer = attach(tiny.trainer(tmp_path, reward), "avspo")
    with pytest.raises(ValueError, match="the user's own fault"):
        trainer.train()


def test_a_checkpoint_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    broken = Broken(lambda: torch.zeros(8))
    broken.state_dict = lambda: {"state": object()}
    trainer = tiny.trainer(tmp_path, ROWS, save_strategy="steps", save_steps=1)
    train(trainer, broken)
    (warned,) = warnings_of(caplog)
    assert "save its state" in warned.getMessage()
    assert not list(tmp_path.rglob("buttress_state.json"))

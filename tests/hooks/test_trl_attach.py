"""What `attach` accepts, what it refuses, and what it says then."""

from __future__ import annotations

import pytest

from buttress.errors import UsageError
from buttress.hooks.trl import ButtressGRPOMixin, attach
from buttress.hooks.trl.checks import PRIVATE, PUBLIC
from buttress.remedies import estimator
from tests.helpers import require
from tests.hooks import tiny

trl = require("trl")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

ONES = tiny.Script([[1.0] * 8])


def test_attach_returns_the_same_trainer_as_a_subclass_of_its_own_class(tmp_path):
    class Mine(trl.GRPOTrainer):
        def greet(self):
            return "still mine"

    trainer = tiny.trainer(tmp_path, ONES, kind=Mine)
    assert attach(trainer, remedy="grpo") is trainer
    assert isinstance(trainer, Mine)
    assert isinstance(trainer, ButtressGRPOMixin)
    assert type(trainer).__name__ == "ButtressMine"
    assert trainer.greet() == "still mine"


def test_everything_listed_is_there(tmp_path):
    trainer = tiny.trainer(tmp_path, ONES)
    assert [name for name in (*PRIVATE, *PUBLIC) if not hasattr(trainer, name)] == []


def test_second_attach_is_refused(tmp_path):
    trainer = attach(tiny.trainer(tmp_path, ONES), "grpo")
    with pytest.raises(UsageError, match="has a remedy already"):
        attach(trainer, "avspo")


def test_the_class_form_counts_as_attached(tmp_path):
    class Mine(ButtressGRPOMixin, trl.GRPOTrainer):
        pass

    trainer = tiny.trainer(tmp_path, ONES, kind=Mine, kind_options={"remedy": "rloo"})
    with pytest.raises(UsageError, match="has a remedy already"):
        attach(trainer, "avspo")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"remedy": "avsop"}, "Did you mean 'avspo'"),
        ({"remedy": "avspo", "treshold": 0.3}, "Did you mean 'threshold'"),
        ({"remedy": "avspo", "threshold": 7}, "threshold must be"),
        ({"remedy": estimator("grpo"), "eps": 1.0}, "an estimator object has its own"),
        ({"remedy": lambda groups: groups.values}, "must be a name or an estimator object"),
        ({"remedy": type(estimator("grpo"))}, "must be a name or an estimator object"),
        ({"remedy": "grpo", "monitor": print}, "monitor must have update"),
    ],
)
def test_wrong_arguments_fail_at_attach_and_change_nothing(tmp_path, arguments, message):
    trainer = tiny.trainer(tmp_path, ONES)
    with pytest.raises(UsageError, match=message):
        attach(trainer, **arguments)
    assert type(trainer) is trl.GRPOTrainer


@pytest.mark.parametrize(
    ("settings", "remedy", "message"),
    [
        ({"scale_rewards": "none"}, "grpo", "asks for advantages that are not scaled"),
        ({"scale_rewards": False}, "avspo", "asks for advantages that are not scaled"),
        ({"scale_rewards": "batch"}, "avspo", "scales by the whole batch"),
        ({"scale_rewards": "batch"}, "global_norm", "scales by the whole batch"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "grpo", "works on their sum"),
    ],
)
def test_settings_that_the_remedy_would_undo_are_refused(tmp_path, settings, remedy, message):
    trainer = tiny.trainer(tmp_path, ONES, **settings)
    with pytest.raises(UsageError, match=message):
        attach(trainer, remedy)


@pytest.mark.parametrize("remedy", ["dr_grpo", "rloo"])
def test_remedies_that_do_not_scale_go_with_scale_rewards_none(tmp_path, remedy):
    attach(tiny.trainer(tmp_path, ONES, scale_rewards="none"), remedy)


def test_a_column_that_trl_cannot_give_is_named(tmp_path):
    needy = estimator("grpo")
    needy.wants = ("length", "reward/script", "entropy", "grade")
    with pytest.raises(UsageError, match="needs grade of each rollout"):
        attach(tiny.trainer(tmp_path, ONES), needy)


def test_other_objects_are_refused():
    with pytest.raises(UsageError, match=r"needs a trl\.GRPOTrainer; got object"):
        attach(object(), "grpo")
    with pytest.raises(UsageError, match="not the class GRPOTrainer"):
        attach(trl.GRPOTrainer, "grpo")


def test_rloo_and_async_trainers_are_refused_with_the_reason():
    from trl.experimental.async_grpo import AsyncGRPOTrainer

    for kind, reason in ((trl.RLOOTrainer, "remedy='rloo'"), (AsyncGRPOTrainer, "child process")):
        with pytest.raises(UsageError, match=reason):
            attach(kind.__new__(kind), "grpo")


def test_an_older_trl_is_named_with_what_it_lacks(tmp_path):
    trainer = tiny.trainer(tmp_path, ONES)
    del trainer.eos_token_ids
    with pytest.raises(UsageError, match="lacks eos_token_ids"):
        attach(trainer, "grpo")


def test_the_mixin_must_come_first():
    with pytest.raises(UsageError, match="first among the bases"):
        type("Mine", (trl.GRPOTrainer, ButtressGRPOMixin), {})


def test_the_mixin_must_see_the_rewards_as_used():
    with pytest.raises(UsageError, match="override _calculate_rewards in a base after it"):

        class Mine(ButtressGRPOMixin, trl.GRPOTrainer):
            def _calculate_rewards(self, *args, **kwargs):
                return super()._calculate_rewards(*args, **kwargs) * 2

"""The advantages that training gets, against TRL's own and against the estimator alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from buttress.groups import Groups
from buttress.hooks.trl import ButtressGRPOMixin, attach
from buttress.remedies import estimator, remedies
from tests.helpers import require
from tests.hooks import tiny

trl = require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo")


def expected(est: Any, rewards: list[float | None], size: int = 4) -> np.ndarray:
    """The estimator on the same groups, without a trainer."""
    flat = [np.nan if reward is None else reward for reward in rewards]
    values = torch.tensor(flat, dtype=torch.float32)
    return est(Groups.from_dense(values.reshape(-1, size))).numpy()


@pytest.mark.parametrize(
    ("remedy", "options", "settings"),
    [
        ("grpo", {}, {}),
        ("dr_grpo", {}, {"scale_rewards": "none"}),
        ("global_norm", {"scale": "batch"}, {"scale_rewards": "batch"}),
        ("gdpo", {}, {"multi_objective_aggregation": "normalize_then_sum"}),
    ],
)
def test_remedies_that_trl_has_too_give_its_own_advantages(tmp_path, remedy, options, settings):
    scripts = [
        tiny.Script(tiny.table(seed, 4, 16, missing=0.25), name=f"part_{seed}") for seed in (1, 2)
    ]
    trainer = tiny.trainer(
        tmp_path,
        scripts,
        kind=tiny.recorder(),
        reward_weights=[1.0, 0.3],
        per_device_train_batch_size=16,
        max_steps=4,
        **settings,
    )
    outputs = tiny.watch(attach(trainer, remedy, **options))
    trainer.train()
    assert len(outputs) == 4
    unscorable = 0
    for own, output, matrix in zip(trainer.own, outputs, trainer.matrices, strict=True):
        # TRL divides float noise of tied groups by eps; ours are exactly 0 there
        torch.testing.assert_close(output["advantages"], own, atol=5e-6, rtol=1e-5)
        unscorable += int(matrix.isnan().all(dim=1).sum())
    assert unscorable > 0
    assert all(output["advantages"].abs().max() > 0.3 for output in outputs)


def test_attached_grpo_trains_as_without(tmp_path):
    def history(remedy):
        # 8 times 0.7 would differ: TRL trains on its float noise there
        rewards = tiny.Script([[1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0, 1, 0, 0, 1]])
        trainer = tiny.trainer(tmp_path, rewards)
        if remedy:
            attach(trainer, remedy)
        trainer.train()
        return [tiny.logged(trainer, name) for name in ("loss", "grad_norm", "entropy", "reward")]

    np.testing.assert_allclose(history("grpo"), history(None), rtol=2e-5, atol=1e-7)


def test_eight_equal_rewards_that_floats_cannot_hold_give_exact_zeros(tmp_path):
    rewards = tiny.Script([[2.1] * 8])
    trainer = tiny.trainer(tmp_path, rewards, num_generations=8, max_steps=1, kind=tiny.recorder())
    outputs = tiny.watch(attach(trainer, "grpo"))
    trainer.train()
    assert trainer.own[0].abs().max() > 0  # TRL's phantom advantages
    assert tiny.logged(trainer, "frac_reward_zero_std") == [0.0]
    assert (outputs[0]["advantages"] == 0).all()
    assert tiny.logged(trainer, "buttress/acr") == [1.0]


@pytest.mark.parametrize("loss_type", LOSSES)
def test_every_loss_trains_on_the_replaced_advantages(tmp_path, loss_type):
    settings = {"importance_sampling_level": "sequence"} if loss_type == "luspo" else {}
    rewards = tiny.table(5, 2, 8)
    trainer = tiny.trainer(
        tmp_path, tiny.Script(rewards), loss_type=loss_type, max_steps=2, **settings
    )
    outputs = tiny.watch(attach(trainer, "avspo", threshold="always"))
    trainer.train()
    est = estimator("avspo", threshold="always")
    for output, row in zip(outputs, rewards, strict=True):
        np.testing.assert_allclose(output["advantages"], expected(est, row), rtol=1e-6)
    assert np.isfinite(tiny.logged(trainer, "loss")).all()
    assert min(tiny.logged(trainer, "grad_norm")) > 0


@pytest.mark.parametrize("name", [page.name for page in remedies("advantage")])
def test_every_advantage_remedy_trains(tmp_path, name):
    trainer = tiny.trainer(tmp_path, tiny.Script(tiny.table(5, 2, 8, missing=0.1)), max_steps=2)
    est = estimator(name)
    outputs = tiny.watch(attach(trainer, name))
    trainer.train()
    assert tiny.logged(trainer, "buttress/fallback") == [0.0, 0.0]
    assert any(output["advantages"].any() for output in outputs)
    est.load_state_dict(json.loads(json.dumps(trainer._buttress.estimator.state_dict())))


def test_a_dead_batch_moves_the_model_only_with_the_remedy(tmp_path):
    def gradient(remedy):
        trainer = attach(tiny.trainer(tmp_path, tiny.Script([[0.0] * 8]), max_steps=1), remedy)
        trainer.train()
        return tiny.logged(trainer, "grad_norm")[0]

    assert gradient("grpo") == 0
    assert gradient("avspo") > 0


def test_one_generation_for_several_steps(tmp_path):
    """The replaced advantages are those that `split` and `shuffle` hand to every step."""
    rewards = tiny.table(3, 4, 16)
    trainer = tiny.trainer(tmp_path, tiny.Script(rewards), steps_per_generation=2, max_steps=4)
    outputs = tiny.watch(attach(trainer, "rloo"))
    used: list[Any] = []
    prepare = trainer._prepare_inputs

    def prepare_and_keep(batch):
        inputs = prepare(batch)
        used.append(inputs["advantages"])
        return inputs

    trainer._prepare_inputs = prepare_and_keep
    trainer.train()
    assert len(outputs) == 2
    assert len(used) == 4
    for output, halves in zip(outputs, (used[:2], used[2:]), strict=True):
        torch.testing.assert_close(torch.cat(halves).sort()[0], output["advantages"].sort()[0])


def test_users_override_of_the_rewards_is_what_the_remedy_sees(tmp_path):
    class Shaped(trl.GRPOTrainer):
        def _calculate_rewards(self, *args, **kwargs):
            return super()._calculate_rewards(*args, **kwargs) * 3 + 1

    class Direct(ButtressGRPOMixin, Shaped):
        pass

    row = [1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0]
    want = expected(estimator("dr_grpo"), [3 * reward + 1 for reward in row])
    options = {"remedy": "dr_grpo"}
    live = attach(tiny.trainer(tmp_path, tiny.Script([row]), kind=Shaped, max_steps=1), "dr_grpo")
    direct = tiny.trainer(
        tmp_path, tiny.Script([row]), kind=Direct, kind_options=options, max_steps=1
    )
    for trainer in (live, direct):
        outputs = tiny.watch(trainer)
        trainer.train()
        np.testing.assert_allclose(outputs[0]["advantages"], want, rtol=1e-6)


def test_class_form_passes_options_on(tmp_path):
    class Mine(ButtressGRPOMixin, trl.GRPOTrainer):
        pass

    options = {"remedy": "avspo", "remedy_options": {"threshold": 0.25}}
    trainer = tiny.trainer(tmp_path, tiny.Script([[0.0] * 8]), kind=Mine, kind_options=options)
    trainer.train()
    assert tiny.logged(trainer, "buttress/threshold") == [0.25] * 3


class PerToken:
    """An estimator of token advantages: row i, token t gets i + t / 100."""

    def __init__(self, width):
        self.width = width
        self.reading = {}

    def __call__(self, groups):
        rows = torch.arange(groups.n_samples, dtype=torch.float32)[:, None]
        return rows + torch.arange(self.width) / 100

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("width", [3, 6, 9])
def test_token_advantages_are_cut_or_padded_to_the_completions(tmp_path, width):
    trainer = tiny.trainer(tmp_path, tiny.Script([[1.0, 0.0] * 4]), max_steps=1)
    outputs = tiny.watch(attach(trainer, PerToken(width)))
    trainer.train()
    found, ids = outputs[0]["advantages"], outputs[0]["completion_ids"]
    assert found.shape == ids.shape
    shared = min(width, ids.shape[1])
    torch.testing.assert_close(
        found[:, :shared], PerToken(shared)(Groups.from_dense(np.zeros((2, 4))))
    )
    assert (found[:, shared:] == 0).all()
    assert np.isfinite(tiny.logged(trainer, "loss")[0])

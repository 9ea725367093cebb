"""Our losses inside the trainer, against TRL's own of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from buttress.errors import UsageError
from buttress.hooks.trl import attach
from buttress.hooks.trl import rollouts as trl_rollouts
from buttress.remedies import create, estimator, remedies
from buttress.remedies.losses import Dapo, PpoClip
from tests.helpers import require
from tests.hooks import tiny

trl = require("trl")
torch = require("torch")
pytestmark = [pytest.mark.trl, *map(pytest.mark.filterwarnings, tiny.QUIET)]

# rewards that floats hold exactly: TRL trains on float noise in the others
ROWS = [
    [1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0],
    [0.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.5, 1.0],
]
# plain descent keeps rounding small; a large step, so that the ratios of a second pass are clipped
BASE: dict[str, Any] = {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant"}
REUSED = {
    **BASE,
    "num_iterations": 2,
    "gradient_accumulation_steps": 2,
    "per_device_train_batch_size": 4,
    "beta": 0.1,
    "max_steps": 4,
}
TWINS = {
    "ppo_clip": ("grpo", {}),
    "dapo": ("dapo", {"epsilon_high": 0.28}),
    "dr_grpo_loss": ("dr_grpo", {"scale_rewards": "none"}),
    "sapo": ("sapo", {}),
    "cispo": ("cispo", {"epsilon_high": 5.0}),
    "gspo": (
        "grpo",
        {"importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
}
METRICS = ("loss", "grad_norm", "entropy", "kl", "cispo_clip_ratio")
CLIPPED = tuple(
    f"clip_ratio/{part}" for part in ("low_mean", "high_mean", "region_mean", "low_min", "high_max")
)


def run(folder, settings, remedy=None, **options):
    """Train; return the parameters, how far they went, and the trainer."""
    trainer = tiny.trainer(folder, tiny.Script(ROWS), **(BASE | settings))
    start = parameters(trainer)
    if remedy is not None:
        attach(trainer, remedy, **options)
    trainer.train()
    end = parameters(trainer)
    return end, float((end - start).abs().max()), trainer


def parameters(trainer):
    return torch.cat([one.detach().flatten().clone() for one in trainer.model.parameters()])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dapo", {}),
        ("ppo_clip", {"mask_truncated_completions": True}),
        *((name, REUSED) for name in TWINS),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} settings",
)
def test_a_loss_that_trl_has_too_gives_the_same_parameters(tmp_path, name, settings):
    loss_type, theirs = TWINS[name]
    want, moved, own = run(tmp_path, settings | theirs | {"loss_type": loss_type})
    # what TRL's own loss would be must not matter
    other = "bnpo" if loss_type == "cispo" else "cispo"
    got, _, attached = run(tmp_path, settings | theirs | {"loss_type": other}, name)
    assert moved > 0.01
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
    # TRL counts the clipped responses of GSPO, we their tokens
    for metric in METRICS + (() if name == "gspo" else CLIPPED):
        ours, their = (np.array(tiny.logged(one, metric), float) for one in (attached, own))
        np.testing.assert_allclose(ours, their, atol=2e-5, rtol=2e-3, err_msg=metric)
    assert set(tiny.logged(attached, "buttress/loss_fallback")) == {0.0}
    if settings is REUSED and name in ("ppo_clip", "dapo", "dr_grpo_loss", "gspo"):
        assert max(tiny.logged(attached, "clip_ratio/region_mean")) > 0


@pytest.mark.parametrize("name", [page.name for page in remedies("loss")])
def test_every_loss_trains_off_policy(tmp_path, name):
    settings = {"num_iterations": 2, "max_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    _, moved, trainer = run(tmp_path, settings, name)
    assert moved > 1e-4
    assert np.isfinite(tiny.logged(trainer, "loss")).all()
    assert np.isfinite(tiny.logged(trainer, "eval_loss")).all()
    assert tiny.logged(trainer, "buttress/loss_fallback") == [0.0, 0.0]
    assert tiny.logged(trainer, "buttress/fallback") == [0.0]
    clips = name not in ("sapo", "cispo", "cispo_verl")
    assert bool(tiny.logged(trainer, "clip_ratio/low_mean")) is clips


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dapo", {"denominator": "signal"}),
        ("ppo_clip", {"denominator": "signal"}),
        ("dr_grpo_loss", {"denominator": "signal"}),
        ("dcpo_clip", {}),
        ("ppo_clip", {"aggregation": "seq_mean_token_sum"}),
    ],
    ids=str,
)
def test_micro_batches_add_up_to_the_step(tmp_path, name, options):
    """Two micro-batches of 4 give the parameters of one of 8."""
    steps = {"max_steps": 2, "max_grad_norm": 1e9, "learning_rate": 0.1}
    one, moved, _ = run(tmp_path, steps, name, **options)
    split = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    two, _, _ = run(tmp_path, steps | split, name, **options)
    assert moved > 0.001
    torch.testing.assert_close(two, one, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("how", ["seq_mean_token_mean", "token_mean"])
def test_the_hinge_adds_up_over_micro_batches(tmp_path, how):
    """However the mastered rows are dealt to micro-batches; on a second pass, once it acts."""
    steps = {"max_steps": 2, "num_iterations": 2, "max_grad_norm": 1e9, "learning_rate": 0.3}
    options = {"weight": 20.0, "hinge_aggregation": how}
    one, _, _ = run(tmp_path, steps, "mcpo_hinge_kl", **options)
    free, _, _ = run(tmp_path, steps, "mcpo_hinge_kl", weight=0.0)
    for size in (4, 2, 1):
        split = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 8 // size}
        parts, _, _ = run(tmp_path, steps | split, "mcpo_hinge_kl", **options)
        torch.testing.assert_close(parts, one, atol=1e-5, rtol=1e-4)
    assert (one - free).abs().max() > 1e-3


def test_tied_groups_leave_the_denominator(tmp_path):
    """One of two groups is tied: counting the live one alone doubles the step."""
    plain = {"max_steps": 1, "max_grad_norm": 1e9}
    start = parameters(tiny.trainer(tmp_path, tiny.Script(ROWS)))
    both, _, _ = run(tmp_path, plain, "ppo_clip")
    live, _, _ = run(tmp_path, plain, "ppo_clip", denominator="signal")
    torch.testing.assert_close(live - start, 2 * (both - start), atol=1e-5, rtol=1e-3)


def test_a_group_that_the_remedy_moves_counts_as_live(tmp_path):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), max_steps=1)
    loss = Dapo(denominator="signal")
    outputs = tiny.watch(attach(trainer, "avspo", loss=loss, threshold="always"))
    trainer.train()
    (output,) = outputs
    assert output["buttress_signal"].all()
    assert output["buttress_live"] == output["completion_mask"].sum()
    assert output["buttress_mastered"].tolist() == [False] * 4 + [True] * 4


def test_a_mastered_prompt_is_held_where_it_was(tmp_path):
    """The hinge acts on the all-correct group once the policy has moved, and only there."""

    def losses(weight):
        settings = {"num_iterations": 2, "max_steps": 2}
        return tiny.logged(run(tmp_path, settings, "mcpo_hinge_kl", weight=weight)[2], "loss")

    without, with_it = losses(0.0), losses(5.0)
    assert with_it[0] == pytest.approx(without[0], abs=1e-6)
    assert with_it[1] > without[1] + 1e-4


def test_a_loss_stands_for_the_advantages_of_its_paper(tmp_path):
    for name in ("ppo_clip", "dr_grpo_loss", "dcpo_clip", "mcpo_hinge_kl"):
        trainer = attach(tiny.trainer(tmp_path, tiny.Script(ROWS)), name)
        assert type(trainer._buttress.estimator) is type(estimator(name))
        assert trainer._buttress.plan.loss.max_length == 6


def test_a_fault_of_the_loss_is_one_warning_and_trl_goes_on(tmp_path, caplog):
    class Broken(PpoClip):
        def terms(self, tokens):
            raise ZeroDivisionError("a loss's fault")

    class Wrong(PpoClip):
        def terms(self, tokens):
            return super().terms(tokens) * float("nan")

    want, _, _ = run(tmp_path, {})
    for loss in (Broken(), Wrong()):
        caplog.clear()
        got, _, trainer = run(tmp_path, {}, "grpo", loss=loss)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
        assert tiny.logged(trainer, "buttress/loss_fallback") == [1.0] * 3
        (warned,) = [line for line in caplog.records if line.name == "buttress.hooks"]
        assert "TRL's own loss is used" in warned.getMessage()


@pytest.mark.parametrize(
    ("name", "options", "needs"),
    [
        ("dapo", {}, False),
        ("mcpo_hinge_kl", {}, True),
        ("dapo", {"denominator": "signal"}, True),
    ],
    ids=str,
)
def test_a_loss_that_needs_the_groups_is_not_used_without(
    tmp_path, monkeypatch, name, options, needs
):
    def fail(*args):
        raise RuntimeError("no facts")

    monkeypatch.setattr(trl_rollouts, "local_facts", fail)
    _, _, trainer = run(tmp_path, {"max_steps": 1}, name, **options)
    assert tiny.logged(trainer, "buttress/fallback") == [1.0]
    assert tiny.logged(trainer, "buttress/loss_fallback") == [float(needs)]


@pytest.mark.parametrize(
    ("settings", "remedy", "loss", "message"),
    [
        ({"top_entropy_quantile": 0.5}, "sapo", None, "top_entropy_quantile below 1; leave it"),
        ({"off_policy_mask_threshold": 0.5}, "sapo", None, "off_policy_mask_threshold"),
        ({"entropy_coef": 0.1}, "avspo", "dapo", "the entropy bonus"),
        ({"epsilon": 0.3}, "ppo_clip", None, r"leave it at 0.2: give the loss clip_low=0.3"),
        ({"epsilon_high": 0.4}, "dapo", None, "give the loss clip_high=0.4"),
        ({"delta": 2.0}, "sapo", None, "Sapo has no such option"),
        ({"importance_sampling_level": "sequence"}, "dapo", None, "or take loss 'gspo'"),
        ({}, PpoClip(beta=0.1), None, "beta=0.1 and GRPOConfig beta=0.0"),
        ({"scale_rewards": "none"}, "ppo_clip", None, "comes with the advantages of 'grpo'"),
        ({}, "ppo_clip", "sapo", "is a loss already"),
        ({}, "grpo", "sappo", "Did you mean 'sapo'"),
        ({}, "grpo", "rent", "unknown loss 'rent'"),
        ({}, "grpo", PpoClip, "must be a name or a Loss object"),
        ({}, "dynamic_sampling", None, "chooses what is sampled"),
        ({}, "greso", None, "chooses what is sampled"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(tmp_path, settings, remedy, loss, message):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), **settings)
    with pytest.raises(UsageError, match=message):
        attach(trainer, remedy, loss=loss)
    assert type(trainer) is trl.GRPOTrainer


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [("aux_loss_enabled", True, "mixture of experts"), ("use_vllm", True, "importance sampling")],
)
def test_parts_of_the_trainer_that_the_loss_lacks_are_refused(tmp_path, part, value, message):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS))
    setattr(trainer, part, value)
    with pytest.raises(UsageError, match=message):
        attach(trainer, "sapo")


def test_a_users_own_loss_is_not_lost(tmp_path):
    class Mine(trl.GRPOTrainer):
        def _compute_loss(self, model, inputs):
            return super()._compute_loss(model, inputs) * 2

    with pytest.raises(UsageError, match="Mine has a _compute_loss of its own"):
        attach(tiny.trainer(tmp_path, tiny.Script(ROWS), kind=Mine), "sapo")
    attach(tiny.trainer(tmp_path, tiny.Script(ROWS), kind=Mine), "avspo")


def test_a_setting_that_says_what_the_loss_says_is_no_conflict(tmp_path):
    trainer = tiny.trainer(tmp_path, tiny.Script(ROWS), epsilon=0.3, epsilon_high=0.4)
    attach(trainer, "grpo", loss=create("dapo", clip_low=0.3, clip_high=0.4))

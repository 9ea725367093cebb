"""Losses against TRL's own code, value for value and gradient for gradient, and by hand."""

from __future__ import annotations

import math
from collections import defaultdict
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.remedies import losses
from tests.helpers import require

torch = require("torch")


def batch(seed: int, rows: int = 6, width: int = 9, *, spread: float = 0.6):
    """A ragged random batch: log-probabilities, old ones, reference, advantages, mask."""
    rng = torch.Generator().manual_seed(seed)
    logp = -torch.rand(rows, width, generator=rng, dtype=torch.float64) * 3 - 0.05
    old = logp + spread * torch.randn(rows, width, generator=rng, dtype=torch.float64)
    ref = logp + 0.3 * torch.randn(rows, width, generator=rng, dtype=torch.float64)
    advantages = torch.randn(rows, generator=rng, dtype=torch.float64)
    advantages[::3] = 0.0
    lengths = torch.randint(1, width + 1, (rows,), generator=rng)
    mask = (torch.arange(width)[None, :] < lengths[:, None]).double()
    return SimpleNamespace(
        logp=logp.requires_grad_(), old=old.clamp(max=-1e-3), ref=ref, adv=advantages, mask=mask
    )


def value_and_gradient(function, leaf):
    value = function()
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient


class FakeAccelerator:
    num_processes = 1
    sync_gradients = True

    def gather(self, values):
        return values

    def reduce(self, values, reduction):
        return values


def trl_loss(b, loss_type, *, level="token", beta=0.0, high=0.2, delta=None, max_length=9):
    """TRL's own `_compute_loss`, run on a bare object with just the attributes it reads."""
    grpo = require("trl.trainer.grpo_trainer")
    args = SimpleNamespace(
        delta=delta,
        sapo_temperature_pos=1.0,
        sapo_temperature_neg=1.05,
        use_bias_correction_kl=False,
        steps_per_generation=1,
    )
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (b.logp, torch.zeros_like(b.logp), None),
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        aux_loss_enabled=False,
        beta=beta,
        loss_type=loss_type,
        epsilon_low=0.2,
        epsilon_high=high,
        args=args,
        use_vllm=False,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        max_completion_length=max_length,
        accelerator=FakeAccelerator(),
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    ids = torch.zeros(b.logp.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1],
        "completion_ids": ids,
        "completion_mask": b.mask,
        "advantages": b.adv,
        "old_per_token_logps": b.old,
        "ref_per_token_logps": b.ref,
        "num_items_in_batch": b.mask.sum(),
    }
    return grpo.GRPOTrainer._compute_loss(trainer, None, inputs)


TRL_PAIRS = [
    (losses.PpoClip(), {"loss_type": "grpo"}),
    (losses.PpoClip(delta=2.0), {"loss_type": "grpo", "delta": 2.0}),
    (losses.PpoClip(beta=0.1), {"loss_type": "grpo", "beta": 0.1}),
    (losses.PpoClip(aggregation="token_mean"), {"loss_type": "bnpo"}),
    (losses.Dapo(), {"loss_type": "dapo", "high": 0.28}),
    (losses.DrGrpoLoss(max_length=9), {"loss_type": "dr_grpo"}),
    (losses.Cispo(cap=1.5), {"loss_type": "cispo", "high": 1.5}),
    (losses.Sapo(), {"loss_type": "sapo"}),
    (losses.Gspo(clip_low=0.2, clip_high=0.2), {"loss_type": "grpo", "level": "sequence"}),
]


@pytest.mark.trl
@pytest.mark.parametrize(("loss", "config"), TRL_PAIRS, ids=lambda one: str(one)[:40])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_equals_trl(loss, config, seed):
    b = batch(seed)
    ours, our_gradient = value_and_gradient(
        lambda: loss(b.logp, b.old, b.adv, b.mask, ref_logp=b.ref), b.logp
    )
    theirs, their_gradient = value_and_gradient(lambda: trl_loss(b, **config), b.logp)
    # TRL holds SAPO's temperatures in float32
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-7)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-6, atol=1e-7)


ALL = [
    losses.PpoClip(),
    losses.Dapo(),
    losses.DrGrpoLoss(max_length=9),
    losses.Gspo(),
    losses.DcpoClip(),
    losses.Cispo(),
    losses.CispoVerl(),
    losses.Sapo(),
    losses.McpoHingeKl(),
]


@pytest.mark.parametrize("loss", ALL, ids=lambda one: type(one).__name__)
def test_on_policy_gradient_is_the_policy_gradient(loss):
    """At ρ = 1 every loss has the gradient -A grad log π, whatever it does further out."""
    b = batch(3)
    _, gradient = value_and_gradient(lambda: loss(b.logp, None, b.adv, b.mask), b.logp)

    def plain():
        return losses.aggregate(
            -b.adv[:, None] * b.logp, b.mask, loss.aggregation, max_length=loss.max_length
        )

    _, expected = value_and_gradient(plain, b.logp)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ALL, ids=lambda one: type(one).__name__)
def test_padding_and_tied_rows_are_silent(loss):
    b = batch(5)
    spoiled = torch.where(b.mask > 0, b.logp.detach(), torch.tensor(float("nan"))).requires_grad_()
    value, gradient = value_and_gradient(lambda: loss(spoiled, b.old, b.adv, b.mask), spoiled)
    assert math.isfinite(value)
    assert (gradient[b.mask == 0] == 0).all()
    assert (gradient[b.adv == 0] == 0).all()


@pytest.mark.parametrize("loss", ALL, ids=lambda one: type(one).__name__)
def test_token_level_advantages(loss):
    b = batch(6)
    wide = b.adv[:, None].expand_as(b.logp)
    assert torch.allclose(
        loss(b.logp, b.old, b.adv, b.mask), loss(b.logp, b.old, wide, b.mask), rtol=1e-12
    )


def test_aggregations_by_hand():
    terms = torch.tensor([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    values = {
        "token_mean": 7 / 3,
        "seq_mean_token_mean": (1.5 + 4) / 2,
        "seq_mean_token_sum": 3.5,
        "seq_mean_token_sum_norm": 7 / 20,
        "seq_sum_token_mean": 5.5,
    }
    assert set(values) == set(losses.AGGREGATIONS)
    for how, expected in values.items():
        assert (losses.aggregate(terms, mask, how, max_length=10)).item() == pytest.approx(expected)


def test_tied_groups_dilute_unless_left_out():
    terms = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    mask = torch.ones(2, 2)
    keep = torch.tensor([True, False])
    assert (losses.aggregate(terms, mask, "token_mean")).item() == 0.5
    assert (losses.aggregate(terms, mask, "token_mean", keep=keep)).item() == 1.0
    assert (losses.aggregate(terms, mask, "seq_mean_token_mean", keep=keep)).item() == 1.0
    # nothing carries a signal: 0, not a division by zero
    assert (losses.aggregate(terms * 0, mask, "token_mean", keep=~keep & keep)).item() == 0.0


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_micro_batches_add_up_with_the_total(seed):
    b = batch(seed)
    whole = losses.Dapo()(b.logp, b.old, b.adv, b.mask)
    total = b.mask.sum()
    parts = sum(
        losses.Dapo()(b.logp[rows], b.old[rows], b.adv[rows], b.mask[rows], total=total)
        for rows in (slice(0, 2), slice(2, None))
    )
    assert parts.item() == pytest.approx(whole.item(), rel=1e-12)


@given(st.floats(-3, 3), st.floats(1e-4, 0.5))
def test_hinge_is_continuous_and_never_negative(apart, delta):
    hinge = losses.McpoHingeKl(delta_kl=delta).hinge
    value = float(hinge(torch.tensor(apart, dtype=torch.float64)))
    assert value >= -1e-15
    assert (value == 0) == (abs(apart) <= delta) or abs(apart) - delta < 1e-6
    ends = torch.tensor([delta, -delta], dtype=torch.float64)
    assert torch.allclose(hinge(ends), torch.zeros(2, dtype=torch.float64), atol=1e-12)


def test_hinge_holds_mastered_prompts_only():
    b = batch(8)
    nothing = torch.zeros_like(b.adv)
    mastered = torch.tensor([True, False, False, False, False, False])
    loss = losses.McpoHingeKl()
    _, gradient = value_and_gradient(
        lambda: loss(b.logp, b.old, nothing, b.mask, mastered=mastered), b.logp
    )
    assert gradient[0].abs().sum() > 0
    assert (gradient[1:] == 0).all()


HELD = {  # what each rule counts of the mastered responses
    "token_mean": lambda b, mastered: b.mask[mastered].sum(),
    "seq_mean_token_mean": lambda b, mastered: mastered.sum(),
    "seq_mean_token_sum": lambda b, mastered: mastered.sum(),
    "seq_mean_token_sum_norm": lambda b, mastered: mastered.sum(),
    "seq_sum_token_mean": lambda b, mastered: None,
}


@pytest.mark.parametrize("how", losses.AGGREGATIONS)
@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_hinge_of_parts_adds_up_with_the_total(how, seed):
    """However unevenly the mastered responses are dealt to the parts."""
    b = batch(seed)
    nothing = torch.zeros_like(b.adv)
    mastered = torch.rand(len(b.adv), generator=torch.Generator().manual_seed(seed)) < 0.5
    loss = losses.McpoHingeKl(hinge_aggregation=how, max_length=9, weight=3.0)
    whole = loss(b.logp, b.old, nothing, b.mask, mastered=mastered)
    total = HELD[how](b, mastered)
    parts = sum(
        loss(
            b.logp[rows], b.old[rows], nothing[rows], b.mask[rows],
            mastered=mastered[rows], mastered_total=total,
        )
        for rows in (slice(0, 1), slice(1, 3), slice(3, None))
    )  # fmt: skip
    assert parts.item() == pytest.approx(whole.item(), rel=1e-9, abs=1e-15)


def test_hinge_by_hand():
    """Two mastered responses of 1 and 3 tokens, d = 0.5 on one token each: token means of φ."""
    old = torch.full((3, 3), -2.0, dtype=torch.float64)
    apart = torch.zeros_like(old)
    apart[0, 0] = apart[1, 1] = apart[2, 0] = 0.5
    mask = torch.tensor([[1, 0, 0], [1, 1, 1], [1, 1, 1]])
    spoiled = (old + apart).masked_fill(mask == 0, float("nan"))
    phi = (math.exp(0.5) - 1.5) - (math.exp(0.01) - 1.01)
    by_rule = {
        "seq_mean_token_mean": (phi + phi / 3) / 2,
        "token_mean": 2 * phi / 4,
        "seq_mean_token_sum": phi,
        "seq_mean_token_sum_norm": phi / 5,
        "seq_sum_token_mean": phi + phi / 3,
    }
    for how, expected in by_rule.items():
        loss = losses.McpoHingeKl(hinge_aggregation=how, max_length=5, weight=2.0)
        mastered = torch.tensor([True, True, False])
        got = loss(spoiled, old, torch.zeros(3), mask, mastered=mastered)
        assert float(got) == pytest.approx(2 * expected), how
        none = loss(spoiled, old, torch.zeros(3), mask, mastered=~mastered & mastered)
        assert float(none) == 0


@given(st.floats(1e-6, 1.0), st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_dcpo_bounds_solve_their_inequality(chance, low, high):
    """At the bounds |(ρ - 1) ρ| q equals the clip, unless the lower one has no solution."""
    upper = 0.5 + 0.5 * math.sqrt(1 + 4 * high / chance)
    assert (upper - 1) * upper * chance == pytest.approx(high, rel=1e-6)
    inside = 1 - 4 * low / chance
    if inside > 0:
        lower = 0.5 + 0.5 * math.sqrt(inside)
        assert (1 - lower) * lower * chance == pytest.approx(low, rel=1e-6)


def test_dcpo_lets_rare_tokens_move_further():
    old = torch.log(torch.tensor([[0.01, 0.9]], dtype=torch.float64))
    logp = (old + math.log(3.0)).requires_grad_()
    loss = losses.DcpoClip()
    _, gradient = value_and_gradient(lambda: loss(logp, old, torch.ones(1), torch.ones(1, 2)), logp)
    assert gradient[0, 0] != 0  # rare: bound about 5
    assert gradient[0, 1] == 0  # frequent: bound about 1.19


def test_k3_estimates_the_kl_divergence():
    policy = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    reference = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    expected = (policy * losses.k3(policy.log(), reference.log())).sum()
    exact = (policy * (policy / reference).log()).sum()
    assert float(expected) == pytest.approx(float(exact))


def test_both_cispo_conventions():
    b = batch(4, spread=2.0)
    absolute = losses.Cispo(cap=6.0)(b.logp, b.old, b.adv, b.mask)
    relative = losses.CispoVerl(clip_low=1.0, clip_high=5.0)(b.logp, b.old, b.adv, b.mask)
    assert torch.allclose(absolute, relative)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: losses.PpoClip(aggregation="mean"), "aggregation"),
        (lambda: losses.McpoHingeKl(hinge_aggregation="mean"), "hinge_aggregation"),
        (lambda: losses.PpoClip(clip_low=-0.1), "clip_low"),
        (lambda: losses.PpoClip(delta=1.1), "delta"),
        (lambda: losses.Sapo(temperature_pos=0.0), "temperature_pos"),
        (lambda: losses.Dapo(denominator="live"), "denominator"),
    ],
)
def test_bad_options_fail_at_construction(build, says):
    with pytest.raises(UsageError, match=says):
        build()


def test_missing_inputs_are_named():
    b = batch(1)
    with pytest.raises(UsageError, match="ref_logp"):
        losses.PpoClip(beta=0.1)(b.logp, b.old, b.adv, b.mask)
    with pytest.raises(UsageError, match="signal"):
        losses.Dapo(denominator="signal")(b.logp, b.old, b.adv, b.mask)
    with pytest.raises(UsageError, match="max_length"):
        losses.DrGrpoLoss()(b.logp, b.old, b.adv, b.mask)

"""A loss of the catalogue in the place of TRL's: same tokens, same denominators, same metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from buttress.groups import Tolerance
from buttress.hooks.faults import Faults
from buttress.hooks.trl.rollouts import Generation, mode_of
from buttress.hooks.trl.tokens import loss_mask, token_logps
from buttress.measures import GroupSummary, Levels, kinds
from buttress.remedies.losses import (
    Cispo,
    CispoVerl,
    Gspo,
    Loss,
    McpoHingeKl,
    Sapo,
    Tokens,
    aggregate,
    k3,
)
from buttress.remedies.losses.base import sequence_mean

FALLBACK = "TRL's own loss is used"

# Columns that a generation hands to the loss; TRL shuffles and splits them with the rest.
SIGNAL, MASTERED, LIVE = "buttress_signal", "buttress_mastered", "buttress_live"
HELD = "buttress_held"


def batch_columns(
    generation: Generation,
    advantages: Any,
    loss: Loss,
    levels: Levels,
    tolerance: Tolerance,
    rank: int,
    output: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the loss must know of this rank's rows besides TRL's own output.

    ``buttress_signal``: some advantage of the row's group is not 0 (with TRL's own advantages: its
    rewards are not tied). ``buttress_mastered``: its whole group is correct. ``buttress_live``:
    tokens, or rows where the loss counts rows, of all ranks that carry a signal. ``buttress_held``:
    the same count for the hinge of MCPO, of the mastered.
    """
    import torch

    groups, like = generation.groups, output["advantages"]
    summary = GroupSummary.of(groups, tolerance)
    live = summary.mixed
    if advantages is not None:
        moved = advantages.reshape(groups.n_samples, -1).any(dim=1).cpu().numpy()
        live = np.bincount(groups.group_of[moved], minlength=len(groups)) > 0
    signal = live[groups.group_of]
    mastered = (kinds(groups, summary, levels) == 1)[groups.group_of]
    counted = generation.active if loss.aggregation == "token_mean" else signal
    own = slice(rank * len(like), (rank + 1) * len(like))
    by_token = getattr(loss, "hinge_aggregation", None) == "token_mean"
    held = (generation.active if by_token else mastered)[mastered]
    return {
        SIGNAL: torch.from_numpy(signal[own].copy()).to(like.device),
        MASTERED: torch.from_numpy(mastered[own].copy()).to(like.device),
        LIVE: torch.tensor(float(counted[signal].sum()), device=like.device),
        HELD: torch.tensor(float(held.sum()), device=like.device),
    }


def compute(trainer: Any, model: Any, inputs: Mapping[str, Any], loss: Loss, faults: Faults) -> Any:
    """Return the loss of a micro-batch, or None where TRL's own must be used, on every rank."""
    import torch

    logp, entropy, _ = token_logps(trainer, model, inputs, compute_entropy=True)
    value, done, seen = None, False, torch.zeros(len(SEEN), device=logp.device)
    with faults.shield("compute its loss", FALLBACK, own=True):
        old = inputs.get("old_per_token_logps")
        ref = inputs["ref_per_token_logps"] if loss.beta else None
        tokens = Tokens(
            logp=logp,
            old_logp=logp.detach() if old is None else old,
            advantages=inputs["advantages"],
            mask=loss_mask(inputs),
            ref_logp=ref,
            mastered=inputs.get(MASTERED),
        )
        value = _value(trainer, loss, tokens, inputs)
        if not value.isfinite():
            raise ArithmeticError(f"the loss is {value.item()}")
        done = True
        with faults.shield("measure the loss", "some metrics are missing", own=True):
            seen = _seen(trainer, loss, tokens, entropy)
    seen[0] = done
    # every rank comes here, also after a fault: all of them or none use the loss
    seen = trainer.accelerator.gather(seen[None]).cpu().numpy().astype(np.float64)
    failed = not (seen[:, 0] == 1).all()
    with faults.shield("log the loss", "some metrics are missing"):
        metrics = trainer._metrics[mode_of(trainer)]
        metrics["buttress/loss_fallback"].append(float(failed))
        if not failed:
            for name, number in _metrics(loss, seen).items():
                metrics[name].append(number)
    return None if failed else value


def _value(trainer: Any, loss: Loss, tokens: Tokens, inputs: Mapping[str, Any]) -> Any:
    """Return the loss as its part of an optimizer step, whose gradient is averaged over ranks."""
    total, factor = _denominator(trainer, loss, inputs)
    policy, hinge = replace(loss, beta=0.0), {}
    if isinstance(policy, McpoHingeKl):
        _require(inputs, MASTERED)
        # counted over the whole step, whatever the policy term is divided by
        policy = replace(policy, weight=policy.weight * _parts(trainer) / factor)
        hinge = {"mastered_total": inputs[HELD].clamp(min=1)}
    value = policy(
        tokens.logp,
        tokens.old_logp,
        tokens.advantages,
        tokens.mask,
        signal=inputs.get(SIGNAL),
        mastered=tokens.mastered,
        total=total,
        **hinge,
    )
    if loss.beta:
        terms = loss.beta * _kl(trainer, loss, tokens)
        length = loss.max_length
        value = value + aggregate(
            terms, tokens.mask, loss.aggregation, total=total, max_length=length
        )
    return factor * value


def _require(inputs: Mapping[str, Any], column: str) -> None:
    if column not in inputs:
        raise RuntimeError("nothing is known of the groups of this batch")


def _kl(trainer: Any, loss: Loss, tokens: Tokens) -> Any:
    """Return TRL's KL term per token: weighted by the importance ratio where it is told to."""
    term = k3(tokens.logp, tokens.ref_logp)
    if not trainer.args.use_bias_correction_kl:
        return term
    ratio = tokens.log_ratio
    return term * (sequence_mean(ratio, tokens.mask) if isinstance(loss, Gspo) else ratio).exp()


def _denominator(trainer: Any, loss: Loss, inputs: Mapping[str, Any]) -> tuple[Any, float]:
    """Return `total` for the loss, and what its value is multiplied by.

    As TRL: a count over the whole generation stands for ``ranks * steps_per_generation``
    micro-batches; without a count each micro-batch has its own mean. A sum over responses is one
    over the whole step.
    """
    if loss.aggregation == "seq_sum_token_mean":
        return None, float(trainer.accelerator.num_processes)
    if loss.denominator == "signal":
        _require(inputs, LIVE)
        total = inputs[LIVE]
    elif loss.aggregation == "token_mean":
        total = inputs["num_items_in_batch"]
    else:
        return None, 1 / _accumulation(trainer)
    return total.clamp(min=1), _parts(trainer)


def _accumulation(trainer: Any) -> int:
    return trainer.current_gradient_accumulation_steps if mode_of(trainer) == "train" else 1


def _parts(trainer: Any) -> float:
    """Return what a sum divided by a count over the whole generation is multiplied by."""
    parts = trainer.args.steps_per_generation if mode_of(trainer) == "train" else 1
    return trainer.accelerator.num_processes * parts / _accumulation(trainer)


# --- what TRL logs of its losses ---

SEEN = ("done", "tokens", "entropy", "kl", "low", "high", "low_min", "high_max")


def _seen(trainer: Any, loss: Loss, tokens: Tokens, entropy: Any) -> Any:
    """Return this rank's part of the metrics: sums over tokens, and the extremes over responses."""
    import torch

    mask = tokens.mask.to(entropy.dtype)

    def total(values: Any) -> Any:
        return values.where(mask > 0, values.new_zeros(())).sum()

    entropy = entropy.detach().float()
    low, high = (side.to(entropy.dtype) for side in _cut_off(loss, tokens))
    kl = _kl(trainer, loss, tokens).detach() if loss.beta else torch.zeros_like(entropy)
    per_row = mask.sum(-1)
    low_share, high_share = ((side * mask).sum(-1) / per_row for side in (low, high))
    parts = [
        mask.new_ones(()),
        mask.sum(),
        *(total(values) for values in (entropy, kl, low, high)),
        # a response without tokens has no share
        low_share.nan_to_num(nan=float("inf")).amin(),
        high_share.nan_to_num(nan=-float("inf")).amax(),
    ]
    return torch.stack([one.float() for one in parts])


def _cut_off(loss: Loss, tokens: Tokens) -> tuple[Any, Any]:
    """Return which tokens have a bounded ratio: with a negative and with a positive advantage.

    For a loss that clips, those whose gradient it cuts off; for CISPO, those whose weight it caps.
    """
    import torch

    advantages = tokens.advantages
    advantages = advantages.unsqueeze(-1) if advantages.ndim == 1 else advantages
    if isinstance(loss, Cispo | CispoVerl):
        bound = loss.cap if isinstance(loss, Cispo) else 1 + loss.clip_high
        cut = tokens.log_ratio.detach().exp() > bound
    else:
        with torch.enable_grad():
            logp = tokens.logp.detach().requires_grad_()
            terms = loss.terms(replace(tokens, logp=logp, advantages=advantages))
            (slope,) = torch.autograd.grad(terms.sum(), logp)
        cut = slope == 0
    return cut & (advantages < 0), cut & (advantages > 0)


def _metrics(loss: Loss, seen: Any) -> dict[str, float]:
    """Return TRL's metrics, from one row of `SEEN` per rank."""
    column = dict(zip(SEEN, seen.T, strict=True))
    count = max(column["tokens"].sum(), 1.0)
    mean = {name: float(column[name].sum() / count) for name in ("entropy", "kl", "low", "high")}
    found = {"entropy": mean["entropy"]}
    if loss.beta:
        found["kl"] = mean["kl"]
    if isinstance(loss, Cispo | CispoVerl):
        found["cispo_clip_ratio"] = mean["high"]
    elif not isinstance(loss, Sapo):
        found |= {
            "clip_ratio/low_mean": mean["low"],
            "clip_ratio/high_mean": mean["high"],
            "clip_ratio/region_mean": mean["low"] + mean["high"],
            "clip_ratio/low_min": _known(column["low_min"].min()),
            "clip_ratio/high_max": _known(column["high_max"].max()),
        }
    return found


def _known(number: Any) -> float:
    return float(number) if np.isfinite(number) else float("nan")

"""What of TRL's settings goes together with a loss of ours, checked before training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.trl.checks import require_parts
from buttress.remedies.losses import Loss

# What the loss touches of a trainer, besides what every attachment does.
PARTS = (
    "_compute_loss",
    "_get_per_token_logps_and_entropies",  # returns three since 1.16
    "_entropy_bonus_enabled",
    "aux_loss_enabled",
    "beta",
    "max_completion_length",
    "off_policy_mask_threshold",
    "top_entropy_quantile",
    "use_vllm",
    "vllm_importance_sampling_correction",
)

# Settings of TRL's own loss, and the options that say the same of ours.
TWINS = {
    "epsilon": ("clip_low",),
    "epsilon_high": ("clip_high", "cap"),
    "delta": ("delta",),
    "sapo_temperature_pos": ("temperature_pos",),
    "sapo_temperature_neg": ("temperature_neg",),
}


def bound_loss(trainer: Any, loss: Loss) -> Loss:
    """Return the loss with TRL's `beta` and completion cap, or raise `UsageError`."""
    require_parts(trainer, PARTS)
    name = type(loss).__name__
    _check_overrides(trainer, name)
    for problem, instead in _unsupported(trainer):
        raise UsageError(f"{name} replaces TRL's loss and does not know {problem}; {instead}")
    _check_twins(trainer, loss)
    if loss.beta not in (0, trainer.beta):
        raise UsageError(
            f"{name} has beta={loss.beta} and GRPOConfig beta={trainer.beta}; give it to GRPOConfig"
            " alone, which loads the reference model for it"
        )
    cap = trainer.max_completion_length if loss.max_length is None else loss.max_length
    return replace(loss, beta=float(trainer.beta), max_length=cap)


def _unsupported(trainer: Any) -> list[tuple[str, str]]:
    """Return what is on in TRL's loss and missing in ours, each with the way out."""
    corrects = trainer.use_vllm and trainer.vllm_importance_sampling_correction
    table = [
        (
            corrects,
            "vLLM's importance sampling correction",
            "set vllm_importance_sampling_correction=False, or keep TRL's loss",
        ),
        (trainer.top_entropy_quantile < 1, "top_entropy_quantile below 1", "leave it at 1.0"),
        (
            trainer.off_policy_mask_threshold is not None,
            "off_policy_mask_threshold",
            "leave it at None",
        ),
        (
            trainer._entropy_bonus_enabled,
            "the entropy bonus",
            "leave entropy_coef at 0 and use_adaptive_entropy off",
        ),
        (
            trainer.aux_loss_enabled,
            "the load-balancing loss of a mixture of experts",
            "set router_aux_loss_coef=0, or keep TRL's loss",
        ),
    ]
    return [(problem, instead) for is_on, problem, instead in table if is_on]


def _check_twins(trainer: Any, loss: Loss) -> None:
    """Refuse settings of TRL's own loss that ours would silently undo."""
    name = type(loss).__name__
    fields = type(trainer.args).__dataclass_fields__
    for setting, twins in TWINS.items():
        value = getattr(trainer.args, setting, None)
        ours = [twin for twin in twins if hasattr(loss, twin)]
        usual = setting not in fields or value == fields[setting].default
        if usual or any(getattr(loss, twin) == value for twin in ours):
            continue
        instead = f"give the loss {ours[0]}={value}" if ours else f"{name} has no such option"
        raise UsageError(
            f"{setting}={value} is a setting of TRL's loss, which {name} replaces; leave it at "
            f"{fields[setting].default}: {instead}"
        )
    if trainer.importance_sampling_level != "token" and name != "Gspo":
        raise UsageError(
            "importance_sampling_level='sequence' is a setting of TRL's loss, which "
            f"{name} replaces; leave it at 'token', or take loss 'gspo'"
        )


def _check_overrides(trainer: Any, name: str) -> None:
    """Refuse a subclass with a loss of its own: one of the two would be lost without a word."""
    from trl import GRPOTrainer

    known = ("buttress.", "transformers.trainer")
    for kind in type(trainer).__mro__:
        own = {"_compute_loss", "compute_loss"} & set(vars(kind))
        if own and kind is not GRPOTrainer and not kind.__module__.startswith(known):
            raise UsageError(
                f"{kind.__name__} has a {min(own)} of its own, which {name} would replace; "
                "attach the loss to a trainer without one"
            )

"""Every estimator and loss of the catalogue as a registered name of verl 0.9.

Installed beside verl, buttress is found by its entry point in the driver and in every Ray worker;
nothing has to be configured but the name::

    algorithm.adv_estimator=buttress_avspo   +algorithm.buttress.threshold=0.3
    actor_rollout_ref.actor.policy_loss.loss_mode=buttress_sapo

Names carry the prefix, so that verl's own ``grpo`` or ``rloo`` stay what they are. Options stand
under ``algorithm.buttress`` (estimators) and come from the actor's clip settings (losses).

verl draws a fresh ``uid`` per prompt and step and hands no other identity to an estimator: remedies
with a memory per prompt (``dcpo``, ``posterior``, ``spo``) then only know the batch. Their page
says what that leaves of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.metrics import collapse_metrics, reading_metrics, widened
from buttress.measures import Levels
from buttress.remedies.estimator import Estimator
from buttress.remedies.losses import Loss, Tokens
from buttress.remedies.registry import create, names

PREFIX = "buttress_"
# what these need (all rollouts of a prompt correct) does not reach a policy loss of verl
LEFT_OUT = ("mcpo_hinge_kl",)

logger = logging.getLogger("buttress.hooks")


class VerlEstimator:
    """One estimator under verl's signature; keeps its state between steps in this process.

    Attributes
    ----------
    metrics
        What the last step showed: ``buttress/acr``, ``buttress/all_wrong``, ...
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics: dict[str, float] = {}
        self._options: dict[str, Any] | None = None
        self._estimate: Estimator | None = None
        self._levels = Levels(np.nan, np.nan)

    def __call__(
        self,
        token_level_rewards: Any,
        response_mask: Any,
        index: Any = None,
        config: Any = None,
        **unused: Any,
    ) -> tuple[Any, Any]:
        """Return advantages and returns, both ``(response, token)``.

        Rewards are summed over tokens, groups are the responses of one `index`.
        """
        if index is None:
            raise UsageError(f"{PREFIX}{self.name} needs the uid of each response to group them")
        estimate = self._built(config)
        rewards = token_level_rewards.sum(dim=-1).detach()
        lengths = response_mask.sum(dim=-1)
        groups = Groups.from_flat(rewards, np.asarray(index), length=lengths)
        flat = estimate(groups)
        advantages = flat.new_zeros(len(flat))
        advantages[_as_index(groups.order, flat)] = flat
        advantages = advantages.unsqueeze(-1) * response_mask
        self._measure(groups, estimate)
        return advantages, advantages

    def _built(self, config: Any) -> Estimator:
        options = options_of(config)
        if self._estimate is None or options != self._options:
            self._estimate, self._options = create(self.name, **options), options
        return self._estimate

    def _measure(self, groups: Groups, estimate: Estimator) -> None:
        self._levels = widened(self._levels, groups, estimate.tolerance)
        found = {
            **collapse_metrics(groups, self._levels, estimate.tolerance),
            "acr_after": estimate.reading["acr_after"],
            **reading_metrics(estimate.reading),
        }
        self.metrics = {f"buttress/{name}": float(value) for name, value in found.items()}
        LAST_METRICS.clear()
        LAST_METRICS.update(self.metrics)
        report_metrics()


# What the estimator of the last step found; `report_metrics` adds it to what verl logs.
LAST_METRICS: dict[str, float] = {}


class VerlLoss:
    """One loss under verl's signature, aggregated as verl's config says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self,
        old_log_prob: Any,
        log_prob: Any,
        advantages: Any,
        response_mask: Any,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Any = None,
    ) -> tuple[Any, dict[str, float]]:
        """Return the loss and its metrics."""
        from verl.trainer.ppo.core_algos import agg_loss

        loss = loss_from_config(self.name, config)
        terms = loss.terms(Tokens(log_prob, old_log_prob, advantages.detach(), response_mask))
        terms = terms.expand_as(log_prob)
        if rollout_is_weights is not None:
            terms = terms * rollout_is_weights
        spread = dict(getattr(config, "global_batch_info", None) or {})
        value = agg_loss(
            loss_mat=terms, loss_mask=response_mask, loss_agg_mode=loss_agg_mode, **spread
        )
        active = response_mask.to(log_prob.dtype)
        moved = ((old_log_prob - log_prob).detach() * active).sum() / active.sum().clamp(min=1)
        return value, {"actor/ppo_kl": float(moved)}


def options_of(config: Any) -> dict[str, Any]:
    """Return the entries under ``algorithm.buttress`` as plain Python values."""
    chosen = config.get("buttress") if hasattr(config, "get") else None
    if chosen is None:
        return {}
    plain = {}
    for name, value in dict(chosen).items():
        listed = hasattr(value, "__iter__") and not isinstance(value, str | Mapping)
        plain[str(name)] = tuple(value) if listed else value
    return plain


def loss_from_config(name: str, config: Any) -> Loss:
    """Return the loss with the actor's own clip bounds where it has such options.

    ``clip_ratio_low`` and ``clip_ratio_high`` are verl's and have defaults there, so they always
    win over ours: what the config says is what runs.
    """
    known = {field.name for field in fields(create(name))}
    options = {}
    for ours, theirs in (("clip_low", "clip_ratio_low"), ("clip_high", "clip_ratio_high")):
        value = getattr(config, theirs, None)
        if ours in known and value is not None:
            options[ours] = float(value)
    return create(name, **options)


def register() -> list[str]:
    """Enter everything into verl's registries and return the names; safe to repeat."""
    from verl.trainer.ppo import core_algos

    entered = []
    for name in names("advantage", "token"):
        full = PREFIX + name
        if full not in core_algos.ADV_ESTIMATOR_REGISTRY:
            core_algos.register_adv_est(full)(VerlEstimator(name))
        entered.append(full)
    for name in names("loss"):
        full = PREFIX + name
        if name in LEFT_OUT:
            continue
        if full not in core_algos.POLICY_LOSS_REGISTRY:
            core_algos.register_policy_loss(full)(VerlLoss(name))
        entered.append(full)
    return entered


def report_metrics() -> None:
    """Let verl's tracker log the collapse metrics; an estimator cannot return any itself.

    Wraps ``Tracking.log`` of this process once, when the first estimator has run.
    """
    from verl.utils.tracking import Tracking

    if getattr(Tracking.log, "adds_buttress", False):
        return
    plain_log: Callable[..., Any] = Tracking.log

    def log(self: Any, data: Any, step: Any, *args: Any, **kwargs: Any) -> Any:
        if LAST_METRICS and isinstance(data, Mapping):
            data = {**data, **LAST_METRICS}
            LAST_METRICS.clear()
        return plain_log(self, data, step, *args, **kwargs)

    log.adds_buttress = True  # type: ignore[attr-defined]
    Tracking.log = log


def _as_index(order: Any, like: Any) -> Any:
    return like.new_tensor(order, dtype=like.new_zeros(0).long().dtype)

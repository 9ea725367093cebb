"""Every estimator and loss of the catalogue as a registered name of verl 0.9.

Installed beside verl, buttress is found by its entry point in the driver and in every Ray worker;
nothing has to be configured but the name::

    algorithm.adv_estimator=buttress_avspo   +algorithm.buttress.threshold=0.3
    actor_rollout_ref.actor.policy_loss.loss_mode=buttress_sapo

Names carry the prefix, so that verl's own ``grpo`` or ``rloo`` stay what they are. Options stand
under ``algorithm.buttress`` (estimators) and come from the actor's clip settings (losses).

A `Monitor` counts in the driver where ``algorithm.buttress.monitor`` asks for one, with true or
with the settings of `monitor_from`; its numbers are logged with the others::

    +algorithm.buttress.monitor.jsonl=run/buttress.jsonl   +algorithm.buttress.monitor.window=100

An estimator knows neither prompts nor checkpoints, and can stop nothing; `verl_trainer` can.

verl draws a fresh ``uid`` per prompt and step and hands no other identity to an estimator: remedies
with a memory per prompt (``dcpo``, ``posterior``, ``spo``) then only know the batch. Their page
says what that leaves of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.monitor.live import LiveEstimator, check_policies
from buttress.hooks.monitor.settings import monitor_from
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
        self.prompts: Mapping[Any, Any] = {}  # uid -> identity of the prompt, where it is known
        self._asked: dict[str, Any] = {}
        self._live: LiveEstimator | None = None

    @property
    def live(self) -> LiveEstimator | None:
        """The estimator and its monitor, None before the first step."""
        return self._live

    @property
    def metrics(self) -> dict[str, float]:
        return self._live.metrics if self._live else {}

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
        live = self.built(config)
        prompts = [self.prompts.get(uid) for uid in index] if self.prompts else None
        advantages = live.per_token(token_level_rewards, response_mask, index, prompt_id=prompts)
        LAST_METRICS.clear()
        LAST_METRICS.update(live.metrics)
        report_metrics()
        return advantages, advantages

    def built(self, config: Any) -> LiveEstimator:
        """Return the estimator that the config describes, the same one until that changes."""
        options = options_of(config)
        watching = options.pop("monitor", None)
        asked = {"options": options, "monitor": watching}
        if self._live is None or asked != self._asked:
            monitor = None if watching in (None, False) else monitor_from(watching)
            check_policies(monitor, ("length",), "verl")
            self._live, self._asked = LiveEstimator(self.name, options, monitor), asked
            missing = [name for name in self._live.estimate.wanted if name != "length"]
            if missing:
                logger.warning(
                    "%s%s works without %s, which verl does not hand over; its page says how",
                    PREFIX,
                    self.name,
                    ", ".join(missing),
                )
        return self._live


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
    return {str(name): _plain(value) for name, value in dict(chosen).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(name): _plain(one) for name, one in value.items()}
    listed = hasattr(value, "__iter__") and not isinstance(value, str)
    return tuple(map(_plain, value)) if listed else value


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
            data = {**LAST_METRICS, **data}
            LAST_METRICS.clear()
        return plain_log(self, data, step, *args, **kwargs)

    log.adds_buttress = True  # type: ignore[attr-defined]
    Tracking.log = log

"""Remedies as plain functions with the signatures that slime, SkyRL and rLLM ask for.

slime, in the command line (the module attribute ``slime_<remedy>`` is such a function with the
defaults of the remedy)::

    --advantage-estimator grpo
    --custom-reward-post-process-path buttress.hooks.functions.slime_avspo

or, with options, from a module of one's own::

    post_process = slime_reward_post_process("avspo", threshold=0.3)

SkyRL and rLLM, where the trainer is set up::

    register_advantage_estimator("buttress_avspo")(skyrl_estimator("avspo"))
    register_rllm_adv_estimator("buttress_avspo")(rllm_estimator("avspo"))

They are tested to these trainers' schemas as of August 2026 (slime 624b824, SkyRL a956457, rLLM
9beb6e0), with stand-ins for their objects, not inside the running trainers.

Each function keeps the state of its remedy from step to step in its process, under ``.live``:
``.live.metrics`` is what the last step showed, ``.live.estimate.state_dict()`` what to save. None
of the three trainers takes metrics from such a function; they are also logged at level INFO. A copy
that is sent to another process starts afresh.

slime's ``--custom-advantage-function-path`` sees one data-parallel rank's samples without their
group, so nothing that compares rollouts can be computed there; the reward post-processing sees the
whole batch, and slime's own ``grpo`` then spreads each value over the tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.faults import Faults, logger
from buttress.hooks.monitor.live import LiveEstimator, check_offer
from buttress.logs.prose import text_digest, text_of
from buttress.remedies import registry

# slime's estimators that use the post-processed reward as the advantage, as it is
SLIME_PLAIN = ("grpo", "gspo", "cispo")


class _Function:
    """A remedy behind a trainer's signature."""

    trainer: str
    offered: tuple[str, ...]

    def __init__(self, remedy: str, options: dict[str, Any]) -> None:
        self.live = LiveEstimator(remedy, options)
        check_offer(remedy, self.live.estimate.wanted, self.offered, self.trainer)
        self._made_of = remedy, options
        self._faults = Faults()

    def __reduce__(self) -> Any:
        return type(self), self._made_of

    def _log(self) -> None:
        shown = ", ".join(f"{name} {value:.3g}" for name, value in self.live.metrics.items())
        logger.info("%s: %s", self._made_of[0], shown)


class SlimeRewards(_Function):
    """``fn(args, samples) -> (raw_rewards, rewards)``; see `slime_reward_post_process`."""

    trainer = "slime"
    offered = ("length", "truncated", "prompt")

    def __call__(self, args: Any, samples: Sequence[Any]) -> tuple[list[Any], list[float]]:
        """Return the rewards as they are, and the advantages in their place."""
        self._warn(args)
        raw = [sample.get_reward_value(args) for sample in samples]
        if any(isinstance(reward, dict) for reward in raw):
            raise UsageError("slime's rewards are dictionaries: say which entry with --reward-key")
        rollout: dict[Any, int] = {}
        row = []
        for place, (sample, reward) in enumerate(zip(samples, raw, strict=True)):
            # what one rollout was cut into counts once, if it was scored as one
            own = getattr(sample, "rollout_id", None)
            key = place if own is None else (sample.group_index, own, reward)
            row.append(rollout.setdefault(key, place))
        chosen = sorted(rollout.values())
        advantages = self.live(
            _slime_groups([samples[i] for i in chosen], [raw[i] for i in chosen])
        )
        value = dict(zip(chosen, advantages.tolist(), strict=True))
        self._log()
        return raw, [value[place] for place in row]

    def _warn(self, args: Any) -> None:
        used = getattr(args, "advantage_estimator", "grpo")
        if used not in SLIME_PLAIN:
            self._faults.warn(
                f"slime's advantage estimator {used!r} changes what buttress computed; "
                f"set --advantage-estimator to one of {', '.join(SLIME_PLAIN)}"
            )
        if getattr(args, "normalize_advantages", False):
            self._faults.warn(
                "slime's --normalize-advantages whitens the advantages over the batch: tied groups "
                "then get a signal that no reward gave them; leave it out"
            )


class SkyrlEstimator(_Function):
    """``fn(token_level_rewards, response_mask, index, ...)``; see `skyrl_estimator`."""

    trainer = "SkyRL"
    offered = ("length", "prompt")

    def __call__(
        self, token_level_rewards: Any, response_mask: Any, index: Any, **unused: Any
    ) -> tuple[Any, Any]:
        """Return advantages and returns, both ``(response, token)``."""
        advantages = self.live.per_token(
            token_level_rewards, response_mask, index, prompt_id=list(index)
        )
        self._log()
        return advantages, advantages


class RllmEstimator(_Function):
    """``fn(rewards, algorithm_config, **kwargs)``; see `rllm_estimator`."""

    trainer = "rLLM"
    offered = ("length", "prompt")

    def __call__(
        self, rewards: Sequence[Any], algorithm_config: Any = None, **kwargs: Any
    ) -> tuple[list[Any], list[Any]]:
        """Return advantages and returns, one array per group."""
        known = _of_trajectories(kwargs.get("traj_groups"))
        advantages = self.live(Groups.from_nested([list(one) for one in rewards], **known))
        self._log()
        ends = np.cumsum([len(one) for one in rewards], dtype=int)[:-1]
        parts = np.split(advantages, ends) if len(rewards) else []
        return parts, parts


def slime_reward_post_process(remedy: str = "avspo", **options: Any) -> SlimeRewards:
    """Return a function for slime's ``--custom-reward-post-process-path``.

    ``fn(args, samples) -> (raw_rewards, rewards)``, both lists in the order of the samples. Groups
    are the samples of one ``Sample.group_index``, so uneven groups are right too. Samples that one
    rollout was cut into (same ``rollout_id``, same reward) count once in the statistics and share
    the advantage. Prompts are known by their text, so remedies with a memory per prompt work; a
    reward that is a dictionary also gives the columns ``reward/<name>``.

    Parameters
    ----------
    remedy
        A name in ``buttress remedies``.
    options
        Of the remedy.

    Raises
    ------
    UsageError
        For an unknown name or option, and for a remedy that needs more than slime hands over
        (entropies, log-probabilities).
    """
    return SlimeRewards(remedy, options)


def skyrl_estimator(remedy: str = "avspo", **options: Any) -> SkyrlEstimator:
    """Return a function for SkyRL's ``@register_advantage_estimator``.

    ``fn(token_level_rewards, response_mask, index, **kwargs) -> (advantages, returns)``, tensors of
    shape ``(response, token)``. Groups are the responses of one `index`; SkyRL fills it with the
    place of the prompt in the data set, so it is the prompt's identity across epochs too. Step-wise
    trajectories arrive here with their last step and are broadcast by SkyRL.

    Parameters
    ----------
    remedy
        A name in ``buttress remedies``.
    options
        Of the remedy; SkyRL's own ``grpo_norm_by_std`` is not read.

    Raises
    ------
    UsageError
        As `slime_reward_post_process`.
    """
    return SkyrlEstimator(remedy, options)


def rllm_estimator(remedy: str = "avspo", **options: Any) -> RllmEstimator:
    """Return a function for rLLM's ``@register_rllm_adv_estimator``.

    ``fn(rewards, algorithm_config, traj_groups=..., **kwargs) -> (advantages, returns)``: lists
    with one array per group, in the shapes of `rewards`. rLLM calls it once per role and step;
    roles that share the function share the remedy's state, so give each role a function of its own.
    A prompt is known by the instruction of its task (or by the task's row).

    Parameters
    ----------
    remedy
        A name in ``buttress remedies``.
    options
        Of the remedy; rLLM's own ``norm_adv_by_std_in_grpo`` is not read.

    Raises
    ------
    UsageError
        As `slime_reward_post_process`.
    """
    return RllmEstimator(remedy, options)


@functools.cache
def _slime_default(remedy: str) -> SlimeRewards:
    return slime_reward_post_process(remedy)


def __getattr__(name: str) -> Any:
    remedy = name.removeprefix("slime_")
    if remedy == name or remedy not in registry.names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _slime_default(remedy)


def _slime_groups(samples: list[Any], rewards: list[Any]) -> Groups:
    ids = [sample.group_index for sample in samples]
    if any(one is None for one in ids):
        raise UsageError(
            "a slime sample has no group_index: the data source must number the group of each "
            "sample (slime's own does), or rollouts of one prompt cannot be told from others"
        )
    return Groups.from_flat(
        np.array([np.nan if one is None else one for one in rewards], dtype=np.float64),
        ids,
        prompt_id=[_identity(sample.prompt) for sample in samples],
        length=[sample.response_length for sample in samples],
        truncated=[sample.status.value == "truncated" for sample in samples],
        **_components([sample.reward for sample in samples]),
    )


def _components(rewards: list[Any]) -> dict[str, list[float]]:
    """Return the numeric entries of rewards that are dictionaries as columns."""
    tables = [one if isinstance(one, dict) else {} for one in rewards]
    names = {name for one in tables for name, value in one.items() if isinstance(value, Real)}
    return {
        f"reward/{name}": [
            float(value) if isinstance(value := one.get(name), Real) else np.nan for one in tables
        ]
        for name in sorted(names)
    }


def _of_trajectories(groups: Sequence[Any] | None) -> dict[str, Any]:
    """Return lengths and prompt identities of rLLM's trajectory groups, where they are given."""
    if groups is None:
        return {}
    lengths = [
        [sum(len(step.response_ids) for step in one.steps) for one in group.trajectories]
        for group in groups
    ]
    tasks = [group.trajectories[0].task if group.trajectories else None for group in groups]
    return {"length": lengths, "prompt_id": [_identity(_instruction(task)) for task in tasks]}


def _instruction(task: Any) -> Any:
    return getattr(task, "instruction", task)


def _identity(prompt: Any) -> str | None:
    """Return the identity of a prompt by its text, as the readers of logs give it."""
    text = text_of(prompt) if isinstance(prompt, str | list | tuple | dict) else None
    return text_digest(text) if text else None

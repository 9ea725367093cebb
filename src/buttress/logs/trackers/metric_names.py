"""What each trainer calls the metrics that TRL logs, and those that follow from several of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

# Trackers put these before TRL's own names; Hugging Face turns ``eval_`` into ``eval/``.
_PREFIXES = (("train/", ""), ("eval/", "eval_"), ("test/", "test_"))

# Trainer -> its name -> TRL's name for the same quantity. Of several that a run has, the first
# counts. `kl` is the distance to the reference model; a KL between sampler and trainer is not.
BY_TRAINER: Mapping[str, Mapping[str, str]] = {
    "verl": {
        "actor/pg_loss": "loss",
        "actor/loss": "loss",
        "actor/grad_norm": "grad_norm",
        "actor/lr": "learning_rate",
        "actor/entropy": "entropy",
        "actor/kl_loss": "kl",
        "actor/pg_clipfrac": "clip_ratio",
        "critic/score/mean": "reward",
        "critic/rewards/mean": "reward",
        "response_length/mean": "completions/mean_length",
        "response_length/min": "completions/min_length",
        "response_length/max": "completions/max_length",
        "response_length/clip_ratio": "completions/clipped_ratio",
        "grpo/frac_reward_zero_std": "frac_reward_zero_std",
    },
    "prime-rl": {
        "loss/mean": "loss",
        "optim/grad_norm": "grad_norm",
        "optim/lr": "learning_rate",
        "entropy/all/mean": "entropy",
    },
    "tinker": {
        "env/all/reward/total": "reward",
        "optim/entropy": "entropy",
    },
    "ms-swift": {"entropy/mean": "entropy"},
    "OpenRLHF": {
        "policy_loss": "loss",
        "actor_grad_norm": "grad_norm",
        "actor_lr": "learning_rate",
        "entropy_loss": "entropy",
        "ppo_clip_ratio": "clip_ratio",
        "group_reward_std": "reward_std",
        "rollout/reward_mean": "reward",
        "rollout/response_length_mean": "completions/mean_length",
        "rollout/truncated_rate": "completions/clipped_ratio",
    },
    "NeMo-RL": {
        "lr": "learning_rate",
        "kl_penalty": "kl",
        "approx_entropy": "entropy",
        "mean_gen_tokens_per_sample": "completions/mean_length",
    },
    "SkyRL": {
        "policy/final_loss": "loss",
        "policy/policy_loss": "loss",
        "policy/grad_norm": "grad_norm",
        "policy/policy_lr": "learning_rate",
        "policy/policy_entropy": "entropy",
        "policy/policy_kl": "kl",
        "reward/avg_raw_reward": "reward",
        "generate/avg_num_tokens": "completions/mean_length",
        "generate/min_num_tokens": "completions/min_length",
        "generate/max_num_tokens": "completions/max_length",
    },
    "slime": {
        "kl_loss": "kl",
        "pg_clipfrac": "clip_ratio",
        "rollout/truncated_ratio": "completions/clipped_ratio",
    },
    "open-instruct": {
        "loss/total_avg": "loss",
        "loss/policy_avg": "loss",
        "loss/kl_avg": "kl",
        "policy/entropy_avg": "entropy",
        "policy/clipfrac_avg": "clip_ratio",
        "scores": "reward",
        "val/sequence_lengths": "completions/mean_length",
        "val/sequence_lengths_min": "completions/min_length",
        "val/sequence_lengths_max": "completions/max_length",
    },
}  # fmt: skip

_NAMES: dict[str, str] = {}
for _table in BY_TRAINER.values():
    _NAMES |= {name: other for name, other in _table.items() if name not in _NAMES}
_RANK = {name: at for at, name in enumerate(_NAMES, 1)}


class Derived(NamedTuple):
    """A metric that is ``constant + sum(factor * other)``; a ``*`` stands for one part of a name.

    Attributes
    ----------
    name
        TRL's name.
    terms
        The other trainer's names, with factors.
    said
        What the report says of it.
    """

    name: str
    constant: float
    terms: Mapping[str, float]
    said: str

    def sources(self, names: Collection[str]) -> dict[str, float] | None:
        """Return the terms as they are named in this run, None unless each is there just once."""
        found = {}
        for pattern, factor in self.terms.items():
            shape = re.compile(re.escape(pattern).replace(r"\*", "[^/]+"))
            matching = [name for name in names if shape.fullmatch(name)]
            if len(matching) != 1:  # none, or several agents
                return None
            found[matching[0]] = factor
        return found


_TIED = "frac_reward_zero_std"
_SUM = "groups tied between the lowest and the highest reward are not in it"
# The definitions are read from the trainers' sources; that they say what TRL's name says is our
# reading.
DERIVED = (
    Derived(
        _TIED,
        1.0,
        {"env/all/by_group/frac_mixed": -1.0},
        "1 - env/all/by_group/frac_mixed (tinker)",
    ),
    Derived(
        _TIED,
        1.0,
        {"batch/*/fractions/effective": -1.0},
        "1 - batch/<role>/fractions/effective (rLLM)",
    ),
    Derived(
        _TIED,
        0.0,
        {"train/agg/all/*/solved_none": 1.0, "train/agg/all/*/solved_all": 1.0},
        f"solved_none + solved_all (prime-rl); {_SUM}",
    ),
    Derived(
        _TIED,
        0.0,
        {"*/all_correct_groups_ratio": 1.0, "*/all_incorrect_groups_ratio": 1.0},
        f"all_correct_groups_ratio + all_incorrect_groups_ratio (ROLL); {_SUM}",
    ),
    Derived(
        "reward", 0.0, {"train/agg/all/*/reward/mean": 1.0}, "train/agg/all/<agent>/reward/mean"
    ),
    Derived(
        "completions/clipped_ratio",
        0.0,
        {"train/agg/all/*/is_truncated/mean": 1.0},
        "train/agg/all/<agent>/is_truncated/mean",
    ),
    Derived(
        "completions/clipped_ratio",
        1.0,
        {"val/stop_rate": -1.0},
        "1 - val/stop_rate (open-instruct)",
    ),
)


def trl_name(name: str) -> str:
    """Return TRL's name for a metric; its own name where TRL has none.

    >>> trl_name("train/grad_norm"), trl_name("actor/pg_loss"), trl_name("val/acc")
    ('grad_norm', 'loss', 'val/acc')
    >>> trl_name("eval/reward"), trl_name("train/policy_loss")
    ('eval_reward', 'loss')
    """
    if name in _NAMES:
        return _NAMES[name]
    for prefix, other in _PREFIXES:
        if name.startswith(prefix):
            name = other + name.removeprefix(prefix)
            break
    return _NAMES.get(name, name)


def aliases(names: Collection[str]) -> dict[str, str]:
    """Return TRL's name -> the name that a run has for it, where the run lacks the former.

    >>> aliases(["critic/rewards/mean", "critic/score/mean", "train/loss", "kl"])
    {'reward': 'critic/score/mean', 'loss': 'train/loss'}
    """
    found: dict[str, str] = {}
    for name in names:
        other = trl_name(name)
        if other in names:
            continue
        if other not in found or _rank(name) < _rank(found[other]):
            found[other] = name
    return found


def derived(names: Collection[str]) -> Iterator[tuple[Derived, dict[str, float]]]:
    """Yield the metrics that follow from those of a run which lacks them, with their terms."""
    known = {*names, *aliases(names)}
    for one in DERIVED:
        if one.name not in known and (terms := one.sources(names)):
            known.add(one.name)
            yield one, terms


def _rank(name: str) -> int:
    """Return a name's place in the tables; TRL's own, with a prefix, come first."""
    return _RANK.get(name, _RANK.get(name.partition("/")[2], 0))

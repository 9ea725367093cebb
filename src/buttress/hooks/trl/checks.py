"""Everything about TRL that can be wrong before training: versions, trainers, settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from buttress.errors import MissingExtraError, UsageError
from buttress.remedies import estimator

# All that every attachment touches of a trainer, with the first release of TRL that has it (read
# at the tags up to 1.9 and in 1.16; ">1.9" came after 1.9).
PRIVATE = {
    "_calculate_rewards": "0.19",  # returns the gathered matrix (global row, reward function)
    "_generate_and_score_completions": "0.16",  # returns this rank's rows, advantages among them
    "_metrics": "0.16",  # _metrics[mode][name]: the list that log() averages and clears
    "_logs": "0.20",  # deques of the completions table; _logs["extra"] since 1.0
    "_tokenizer": "1.3",
    "_save_checkpoint": "0.19",  # this and the next two are of transformers.Trainer;
    "_get_output_dir": "0.19",  # TRL keeps the state of its entropy controller in the same places
    "_load_optimizer_and_scheduler": "0.19",
}
PUBLIC = {
    "reward_weights": "0.15",
    "reward_func_names": "0.17",
    "scale_rewards": "0.17",
    "num_generations": "0.14",
    "num_generations_eval": "0.26",
    "multi_objective_aggregation": "0.27",
    "environment_factories": "1.8",
    "eos_token_ids": ">1.9",
    "log_completions": "0.15",
}

OTHER_TRAINERS = {
    "RLOOTrainer": "it leaves one out already; use GRPOTrainer with remedy='rloo' instead",
    "AsyncGRPOTrainer": "it computes advantages in a child process, out of reach of a hook",
}

# Remedies that do themselves what these settings of TRL ask for.
BATCH_SCALED = frozenset({"global_norm", "reinforce_pp", "reinforce_pp_baseline"})
PER_OBJECTIVE = frozenset({"gdpo"})

# What every generation brings besides its rewards; the entropies by a forward pass more.
PROVIDED = ("reward", "prompt", "length", "truncated", "entropy", "entropy_max")
PROVIDED_TOKENS = ("token/entropy", "token/logp")
# What the forward pass for token columns touches.
FOR_TOKENS = ("_get_per_token_logps_and_entropies", "temperature", "beta", "_is_vlm")
# How a token column that TRL does not have by itself can be had.
WAYS = {
    "token/ref_logp": "set beta in GRPOConfig above 0 (1e-8 adds no KL term to speak of), which "
    "makes TRL run a reference model",
    "token/belief": "give belief=, a function that asks the policy for the reference answer (its "
    "form is in the docstring of attach)",
}


def check_trainer(trainer: Any) -> None:
    """Raise `UsageError` unless this is a GRPOTrainer instance with everything the hook touches."""
    try:
        import trl
    except ImportError as fault:
        raise MissingExtraError.of("attaching to TRL", "trl") from fault
    if isinstance(trainer, type):
        raise UsageError(
            f"attach needs a trainer, not the class {trainer.__name__}; to build a class, put "
            "ButtressGRPOMixin before it among the bases"
        )
    for base in type(trainer).__mro__:
        if base.__name__ in OTHER_TRAINERS:
            raise UsageError(f"cannot attach to {base.__name__}: {OTHER_TRAINERS[base.__name__]}")
    if not isinstance(trainer, trl.GRPOTrainer):
        raise UsageError(f"attach needs a trl.GRPOTrainer; got {type(trainer).__name__}")
    require_parts(trainer, (*PRIVATE, *PUBLIC))


def require_parts(trainer: Any, parts: Iterable[str]) -> None:
    """Raise `UsageError` that names what this trainer lacks of what the hook touches."""
    missing = [name for name in parts if not hasattr(trainer, name)]
    if missing:
        import trl

        raise UsageError(
            f"{type(trainer).__name__} of TRL {trl.__version__} lacks {', '.join(missing)}; "
            "buttress is made for TRL 1.16"
        )


def build_estimator(trainer: Any, remedy: Any, options: dict[str, Any]) -> Any:
    """Return the estimator that `remedy` names, or `remedy` itself if it is one."""
    if isinstance(remedy, str):
        if remedy in PER_OBJECTIVE:
            weights = trainer.reward_weights.tolist()
            names = trainer.reward_func_names
            options = {"weights": dict(zip(names, weights, strict=True))} | options
        return estimator(remedy, **options)
    if options:
        raise UsageError(
            f"options ({', '.join(options)}) go with the name of a remedy; an estimator object "
            "has its own already"
        )
    parts = ("reading", "state_dict", "load_state_dict")
    complete = callable(remedy) and all(hasattr(remedy, name) for name in parts)
    if isinstance(remedy, type) or not complete:
        raise UsageError(
            "remedy must be a name or an estimator object (est(groups), .reading, .state_dict(), "
            f".load_state_dict()); got {remedy!r}"
        )
    return remedy


def check_settings(trainer: Any, remedy: Any, plan: Any) -> None:
    """Raise `UsageError` where TRL lacks what the remedy needs, or it would undo a setting."""
    name = remedy if isinstance(remedy, str) else type(remedy).__name__
    built = plan.estimator
    _check_columns(trainer, name, plan)
    if not isinstance(remedy, str):
        return
    if trainer.multi_objective_aggregation == "normalize_then_sum" and name not in PER_OBJECTIVE:
        raise UsageError(
            "multi_objective_aggregation='normalize_then_sum' normalises each reward by itself, "
            f"but remedy {name!r} works on their sum; set it to 'sum_then_normalize'"
        )
    scales_batch = name in BATCH_SCALED and getattr(built, "scale", "batch") == "batch"
    if trainer.scale_rewards == "batch" and not scales_batch:
        raise UsageError(
            f"scale_rewards='batch' scales by the whole batch, but remedy {name!r} replaces that "
            "scale by its own; leave scale_rewards at 'group'"
        )
    if trainer.scale_rewards == "none" and hasattr(built, "eps"):
        raise UsageError(
            f"scale_rewards='none' asks for advantages that are not scaled, but remedy {name!r} "
            "scales them; leave scale_rewards at 'group', or take remedy 'dr_grpo' or 'rloo'"
        )


def _check_columns(trainer: Any, name: str, plan: Any) -> None:
    if plan.asks:
        require_parts(trainer, FOR_TOKENS)
    if "certainty" in plan.asks and trainer._is_vlm:
        raise UsageError(
            "the self-certainty needs logits, which buttress computes for text alone; the model of "
            "this trainer takes images"
        )
    if plan.belief is not None and "belief" not in plan.asks:
        raise UsageError(f"belief= goes with remedy 'grpo_vps'; {name!r} does not ask for it")
    offered = {*PROVIDED, *PROVIDED_TOKENS}
    offered |= {f"reward/{function}" for function in trainer.reward_func_names}
    offered |= {"token/ref_logp"} if trainer.beta else set()
    offered |= {"token/belief", "token/prior"} if plan.belief is not None else set()
    needed = [column for column in getattr(plan.estimator, "wanted", ()) if column not in offered]
    for column in needed:
        if column in WAYS:
            raise UsageError(f"remedy {name!r} needs {column}: {WAYS[column]}")
    if needed:
        raise UsageError(
            f"remedy {name!r} needs {', '.join(needed)} of each rollout, which TRL does not know; "
            f"it knows {', '.join(sorted(offered))}"
        )


def check_monitor(monitor: Any) -> None:
    """Raise `UsageError` unless this is None or has an `update` method."""
    if monitor is not None and not callable(getattr(monitor, "update", None)):
        raise UsageError(f"monitor must have update(groups, step=...); got {monitor!r}")


def check_belief(belief: Any) -> None:
    """Raise `UsageError` unless this is None or callable."""
    if belief is not None and not callable(belief):
        raise UsageError(
            f"belief must be a function of (trainer, rows, output, ends); got {belief!r}"
        )

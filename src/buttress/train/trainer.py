"""What `buttress train` adds to TRL's trainer: its own prompts, a log, and a stop before harm.

A step whose loss or gradient is not finite, or whose rollouts could not be written, ends the run
before the optimizer moves: the weights and the checkpoints stay good.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buttress.hooks.trl.rollouts import mode_of
from buttress.train import folder
from buttress.train.dynamic import fill
from buttress.train.prompts import PromptStream
from buttress.train.ranks import RankError, shared
from buttress.train.rollout_log import RolloutLog

if TYPE_CHECKING:
    from trl import GRPOTrainer as _Base
else:
    _Base = object

STATE = ".buttress-state.json"  # hidden, as `folder.RECORD` is


class StoppedError(RankError):
    """The training ended early, before it could do harm."""


class Management:
    """What a managed trainer carries.

    Parameters
    ----------
    problems
        Rows of the data set, as reward functions get them.
    stream
        Chooses among them; used by the main process alone.
    log
        Takes the rollouts.
    record
        What decides the run; goes into every checkpoint.
    """

    def __init__(
        self,
        problems: Sequence[dict[str, Any]],
        stream: PromptStream,
        log: RolloutLog,
        record: Mapping[str, Any],
    ) -> None:
        self.problems = problems
        self.stream = stream
        self.log = log
        self.record = record

    def rows(self, trainer: Any, count: int) -> list[dict[str, Any]]:
        """Return this rank's next `count` rows: each problem once per rollout of its group."""
        size, ranks = trainer.num_generations, trainer.accelerator.num_processes
        chosen = shared(lambda: self.stream.take(count * ranks // size))
        start = trainer.accelerator.process_index * count
        return [dict(self.problems[chosen[at // size]]) for at in range(start, start + count)]

    def learn(self) -> None:
        """Let the sampling learn from the last generation; on the main process alone."""
        if self.log.last is not None:
            self.stream.learn(self.log.last)

    def check_number(self, what: str, value: float, step: int) -> None:
        """Raise `StoppedError` where a number of a step is not finite."""
        if not math.isfinite(value):
            raise StoppedError(
                f"the {what} of step {step} is {value}: the weights were not touched. Usual causes "
                "are a learning rate that is too high, half precision, or rewards of huge size; "
                f"{folder.last_checkpoint(self.log.path.parent)} (with --accept-changes where a "
                "setting has to change)"
            )

    def check_log(self, step: int) -> None:
        """Raise `StoppedError` where the rollouts could not be written."""
        if self.log.fault is not None:
            raise StoppedError(
                f"cannot write to {self.log.path}: {self.log.fault.strerror}. The run stopped in "
                f"step {step} before the update; make room, then go on: "
                f"{folder.last_checkpoint(self.log.path.parent)}"
            ) from self.log.fault

    def save(self, trainer: Any, trial: Any) -> None:
        """Complete the checkpoint that the trainer just wrote, once all ranks are done with it."""
        trainer.accelerator.wait_for_everyone()
        if not trainer.args.should_save:
            return
        base = Path(trainer._get_output_dir(trial=trial))
        place = base / f"checkpoint-{trainer.state.global_step}"
        state = json.dumps({"prompts": self.stream.state_dict()})
        (place / STATE).write_text(state, encoding="utf-8")
        folder.mark(place, self.record, self.log.size)

    def load(self, trainer: Any, checkpoint: str | None) -> None:
        """Take over the state of the prompts from a checkpoint."""
        if checkpoint is not None and trainer.accelerator.is_main_process:
            text = (Path(checkpoint) / STATE).read_text(encoding="utf-8")
            self.stream.load_state_dict(json.loads(text)["prompts"])


class ManagedMixin(_Base):
    """In front of a trainer's class; `manage` puts it there."""

    _management: Management

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        if mode_of(self) != "train":
            return super()._generate_and_score_completions(inputs)
        management, generate = self._management, super()._generate_and_score_completions
        sampling = management.stream.sampling
        if hasattr(sampling, "offer"):
            return fill(self, management, sampling, generate, len(inputs))
        output = generate(management.rows(self, len(inputs)))
        management.learn()
        return output

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        if self.args.push_to_hub:  # elsewhere it would lie among the logs
            super().create_model_card(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)
        step = self.state.global_step + 1
        self._management.check_log(step)
        self._management.check_number("loss", loss.item(), step)
        return loss

    def _get_grad_norm(self, *args: Any, **kwargs: Any) -> Any:
        norm = super()._get_grad_norm(*args, **kwargs)
        if norm is not None and not self.args.fp16:  # its scaler skips such steps by itself
            self._management.check_number("gradient", float(norm), self.state.global_step + 1)
        return norm

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self._management.save(self, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._management.load(self, checkpoint)


def manage(trainer: Any, management: Management) -> Any:
    """Put `ManagedMixin` in front of the class of a trainer, and return the trainer."""
    management.log.trainer = trainer
    kind = type(trainer)
    trainer.__class__ = type(f"Managed{kind.__name__}", (ManagedMixin, kind), {})
    vars(trainer)["_management"] = management
    return trainer

"""What an ms-swift trainer carries: its remedy, and how its batches become groups."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.faults import Faults
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.live import LiveEstimator, check_offer, check_policies
from buttress.hooks.monitor.settings import SINKS, monitor_from
from buttress.hooks.monitor.stopper import stopper
from buttress.logs.prose import text_digest, text_of

STATE_FILE = "buttress_state.json"
FALLBACK = "ms-swift's own advantages are used"
OFFERED = ("length", "truncated", "prompt")


class Facts(NamedTuple):
    """What one sample brings besides its rewards; a plain tuple, to be gathered over ranks."""

    prompt: str | None
    length: int
    truncated: bool
    prompt_id: str
    request_id: str


class SwiftAttachment:
    """The remedy of one trainer. Only the constructor raises: it checks the configuration.

    All ranks hold the same estimator and feed it the same groups.
    """

    def __init__(
        self, trainer: Any, remedy: str, options: dict[str, Any], watching: Any = None
    ) -> None:
        names = tuple(trainer.reward_func_names)
        if remedy == "gdpo":
            weights = trainer.reward_weights.tolist()
            options = {"weights": dict(zip(names, weights, strict=True)), **options}
        monitor = None if watching is None else _monitor(trainer, watching)
        self.live = LiveEstimator(remedy, options, monitor)
        offered = OFFERED + tuple(f"reward/{name}" for name in names)
        check_offer(remedy, self.live.estimate.wanted, offered, "ms-swift")
        check_policies(monitor, offered, "ms-swift")
        _check_settings(trainer, remedy)
        if monitor is not None:
            trainer.add_callback(stopper(lambda: monitor.stop_requested is not None))
        self.faults = Faults(speaks=trainer.accelerator.is_main_process)

    def replace(self, trainer: Any, samples: Sequence[Any], matrix: Any, theirs: Any) -> Any:
        """Return the advantages of all ranks' samples, in the order of the rows of `matrix`."""
        if not trainer.model.training:
            return theirs
        facts = self._facts(samples)
        ours = None
        with self.faults.shield("compute advantages", FALLBACK):
            self._tell_step(trainer)
            ours = _checked(self._advantages(trainer, matrix, facts), theirs)
        numbers = {"buttress/fallback": float(ours is None)}
        if ours is not None:
            numbers |= self.live.metrics
        for name, value in numbers.items():
            if not math.isnan(value):  # ms-swift takes plain means
                trainer._metrics["train"][name].append(value)
        return theirs if ours is None else ours

    def _tell_step(self, trainer: Any) -> None:
        monitor = self.live.monitor
        if monitor is not None:
            self.live.step = trainer.state.global_step + 1
            monitor.total_steps = monitor.total_steps or trainer.state.max_steps or None

    def _facts(self, samples: Sequence[Any]) -> list[Facts | None]:
        from accelerate.utils import gather_object

        facts: list[Facts | None] = [None] * len(samples)
        with self.faults.shield("describe the rollouts", "their prompts are unknown", own=True):
            facts = [_facts_of(sample) for sample in samples]
        # every rank comes here, also after a fault: one that stayed away would hang the others
        return gather_object(facts)

    def _advantages(self, trainer: Any, matrix: Any, gathered: list[Facts | None]) -> Any:
        rewards = (matrix * trainer.reward_weights.to(matrix.device)).nansum(dim=1)
        rewards = rewards.masked_fill(matrix.isnan().all(dim=1), float("nan"))
        columns = {
            f"reward/{name}": matrix[:, at] for at, name in enumerate(trainer.reward_func_names)
        }
        facts = [one for one in gathered if one is not None]
        known = len(facts) == len(gathered) == len(matrix)
        if trainer.dynamic_num_samples:
            if not known:
                raise RuntimeError("the requests that samples belong to are unknown")
            return self._of_requests(rewards, facts, columns)
        group = [row // trainer.num_generations for row in range(len(matrix))]
        if known:
            columns |= _described(facts, group)
        return self.live(Groups.from_flat(rewards, group, **columns))

    def _of_requests(self, rewards: Any, facts: list[Facts], columns: dict[str, Any]) -> Any:
        """A conversation of several samples is one rollout; its last sample stands for it."""
        last = {one.request_id: row for row, one in enumerate(facts)}
        rows = list(last.values())
        chosen = [facts[row] for row in rows]
        group = [one.prompt_id for one in chosen]
        columns = {name: values[rows] for name, values in columns.items()}
        groups = Groups.from_flat(rewards[rows], group, **columns, **_described(chosen, group))
        place = {request: at for at, request in enumerate(last)}
        return self.live(groups)[[place[one.request_id] for one in facts]]

    # --- with the trainer's checkpoint ---

    def save(self, trainer: Any, trial: Any) -> None:
        """Write the state of the remedy beside the checkpoint that was just written."""
        if not trainer.args.should_save:
            return
        with self.faults.shield("save its state", "a resumed run will start the remedy afresh"):
            folder = Path(trainer._get_output_dir(trial=trial))
            path = folder / f"checkpoint-{trainer.state.global_step}" / STATE_FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            state = {"schema": 1, **self.live.state()}
            path.write_text(json.dumps(state), encoding="utf-8")

    def load(self, trainer: Any, checkpoint: str | None) -> None:
        """Take over the state of a checkpoint; the main process reads it for all ranks."""
        if checkpoint is None:
            return
        from accelerate.utils import broadcast_object_list

        found: list[Any] = [None]
        if trainer.accelerator.is_main_process:
            with self.faults.shield("read its state", "the remedy starts afresh"):
                text = (Path(checkpoint) / STATE_FILE).read_text(encoding="utf-8")
                found = [json.loads(text)]
        (state,) = broadcast_object_list(found)
        if state is not None:
            with self.faults.shield("resume its state", "the remedy starts afresh"):
                self.live.restore(state)


def _monitor(trainer: Any, watching: Any) -> Monitor:
    """Return the monitor of this rank: all count the same, the main process alone reports."""
    if not trainer.accelerator.is_main_process and isinstance(watching, Mapping):
        watching = {name: value for name, value in watching.items() if name not in SINKS}
    return monitor_from(watching)


def _check_settings(trainer: Any, remedy: str) -> None:
    """Raise `UsageError` where ms-swift was asked for what the remedy would silently undo."""
    expected = {
        "advantage_estimator": "grpo",
        "scale_rewards": "group",
        "kl_in_reward": False,
    }
    for name, value in expected.items():
        given = getattr(trainer, name)
        if given != value:
            raise UsageError(
                f"remedy {remedy!r} replaces ms-swift's advantages, so {name}={given!r} would have "
                f"no effect; leave it at {value!r}"
            )


def _facts_of(sample: Any) -> Facts:
    text = None if sample.images else text_of(sample.messages[:-1])
    ids = sample.response_token_ids
    return Facts(
        prompt=text_digest(text) if text else None,
        # one list of tokens, or one for each turn of a conversation
        length=sum(len(turn) if isinstance(turn, list) else 1 for turn in ids),
        truncated=sample.is_truncated,
        prompt_id=sample.prompt_id,
        request_id=sample.request_id,
    )


def _described(facts: list[Facts], groups: list[Any]) -> dict[str, Any]:
    """Return the columns of samples; a group whose samples differ in prompt has none."""
    seen: dict[Any, set[str | None]] = {}
    for one, group in zip(facts, groups, strict=True):
        seen.setdefault(group, set()).add(one.prompt)
    return {
        "length": [one.length for one in facts],
        "truncated": [one.truncated for one in facts],
        "prompt_id": [
            one.prompt if len(seen[group]) == 1 else None
            for one, group in zip(facts, groups, strict=True)
        ],
    }


def _checked(advantages: Any, like: Any) -> Any:
    """Return advantages as a tensor like ms-swift's, or raise `UsageError`."""
    import torch

    values = torch.as_tensor(advantages, dtype=like.dtype, device=like.device).detach()
    if values.shape != like.shape or not values.isfinite().all():
        raise UsageError(f"the remedy gave {tuple(values.shape)} advantages, or not finite ones")
    return values

"""verl's V1 trainers with a monitor that knows prompts, checkpoints and when to stop.

An estimator of verl sees a fresh ``uid`` per prompt and step, and nothing of checkpoints. These
subclasses of its V1 trainers see more. They are chosen by name, after verl was told to import this
module in every process (the environment of Ray's workers included)::

    VERL_USE_EXTERNAL_MODULES=buttress.hooks.verl.trainer
    trainer.v1.trainer_mode=buttress_sync          (or buttress_colocate_async, ..._separate_async)
    +algorithm.buttress.monitor.jsonl=run/buttress.jsonl

What they add: the identity of each prompt, also for remedies of ``buttress_*`` that remember
prompts (``dcpo``, ``spo``, ...); ``correct`` from the reward function's ``acc``; the advantages;
the true step and length of the run; the state of monitor and remedy in
``global_step_N/buttress_state.json``; and the policies ``stop`` (one more step, which verl then
treats as its last: it saves and validates as configured) and `Switch` where the estimator is one of
ours. Any advantage estimator of verl can be watched. A session of several outputs counts once, by
its last one.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.faults import Faults, logger
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.actions import STOP, Switch
from buttress.hooks.monitor.live import check_policies
from buttress.hooks.monitor.settings import monitor_from
from buttress.hooks.sinks import known
from buttress.hooks.verl import PREFIX, VerlEstimator, options_of
from buttress.logs.prose import text_digest, text_of

if TYPE_CHECKING:
    from verl.trainer.ppo.v1 import PPOTrainer as _Base
else:
    _Base = object

STATE_FILE = "buttress_state.json"
MODES = ("sync", "colocate_async", "separate_async")


class Monitored(_Base):
    """Goes in front of a V1 trainer class; see the module."""

    def __init__(self, config: Any) -> None:
        open_dict = importlib.import_module("omegaconf").open_dict
        settings = options_of(config.algorithm).get("monitor", True)
        with open_dict(config):
            # verl asks for the mode by name in many places; ours behaves as the one below it
            config.trainer.v1.trainer_mode = config.trainer.v1.trainer_mode.removeprefix(PREFIX)
            if "buttress" in config.algorithm:
                config.algorithm.buttress.pop("monitor", None)  # the estimator needs none
        self.buttress = TrainerMonitor(monitor_from(settings or True), _estimator(config))
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self.buttress.before(batch)
        batch = super()._compute_advantage(batch, metrics)
        self.buttress.after(self, batch, metrics)
        return batch

    def _save_checkpoint(self) -> None:
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        # before verl notes that the checkpoint is complete
        self.buttress.save(folder)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps:
            trainer = self.config.trainer
            folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
            if trainer.resume_mode == "resume_path":
                folder = Path(trainer.resume_from_path)
            self.buttress.load(folder)


class TrainerMonitor:
    """The monitor of one trainer. Only the constructor raises: it checks the configuration."""

    def __init__(self, monitor: Monitor, estimator: VerlEstimator | None) -> None:
        self.monitor, self.estimator = monitor, estimator
        self.live = None if estimator is None else estimator.live
        self.faults = Faults()
        actions = [action for policy in monitor.policies for action in policy.actions]
        if estimator is None and any(isinstance(action, Switch) for action in actions):
            raise UsageError(
                f"Switch needs algorithm.adv_estimator={PREFIX}<remedy>: verl's own estimators "
                "cannot be exchanged during a run"
            )
        check_policies(monitor, ("length", "prompt"), "verl")
        self._rollouts: Rollouts | None = None

    def before(self, batch: Any) -> None:
        """Look at the rollouts of a step, and tell the estimator their prompts."""
        self._rollouts = None
        with self.faults.shield("read the rollouts", "the monitor misses the step"):
            self._rollouts = rollouts = read_rollouts(batch)
            if self.estimator is not None:
                self.estimator.prompts = dict(zip(rollouts.uid, rollouts.prompt, strict=True))

    def after(self, trainer: Any, batch: Any, metrics: dict[str, Any]) -> None:
        """Count the step, add the numbers to verl's, and do what policies ask for."""
        rollouts, live = self._rollouts, self.live
        if rollouts is None:
            return
        with self.faults.shield("update its monitor", "the monitor missed a step"):
            groups = rollouts.groups(
                _rows(_fetch(batch, ["advantages"]), "advantages", len(batch.keys))
            )
            steps = getattr(trainer, "total_training_steps", None)
            self.monitor.total_steps = self.monitor.total_steps or steps
            reading = {} if live is None else live.estimate
            self.monitor.update(groups, step=trainer.global_steps, reading=reading)
            metrics.update(known(self.monitor.metrics()))
        with self.faults.shield("do what its monitor asks for", "the run goes on as it was"):
            for _, request in self.monitor.requests():
                if request == STOP:
                    last = trainer.global_steps + 1
                    trainer.total_training_steps = min(trainer.total_training_steps, last)
                elif isinstance(request, Switch) and live is not None:
                    live.use(request)

    # --- with the trainer's checkpoint ---

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        with self.faults.shield("save its state", "a resumed run will start the monitor afresh"):
            remedy = None if self.live is None else self.live.state()
            state = {"schema": 1, "remedy": remedy, "monitor": self.monitor.state_dict()}
            folder.mkdir(parents=True, exist_ok=True)
            half = folder / f"{STATE_FILE}.half"
            half.write_text(json.dumps(state), encoding="utf-8")
            half.replace(folder / STATE_FILE)

    def load(self, folder: Path) -> None:
        """Take over the state of a checkpoint."""
        with self.faults.shield("resume its state", "the monitor starts afresh"):
            state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
            self.monitor.load_state_dict(state["monitor"])
            if self.live is not None and state["remedy"] is not None:
                self.live.restore(state["remedy"])


class Rollouts:
    """What a step's rollouts bring: lists with one entry per session."""

    def __init__(self, rows: Sequence[int], data: Mapping[str, Any]) -> None:
        self.rows = np.asarray(rows, dtype=np.int64)
        self.uid = [data["uid"][row] for row in rows]
        self.prompt = [_identity(data["raw_prompt"][row]) for row in rows]
        self.length = [float(data["response_mask"][row].sum()) for row in rows]
        self.reward = [float(data["rm_scores"][row].sum()) for row in rows]
        self.correct = [_correct(data["extra_fields"][row]) for row in rows]

    def groups(self, advantages: Sequence[Any]) -> Groups:
        """Return the rollouts as groups; `advantages` hold those of each row's tokens."""
        columns: dict[str, Any] = {"length": self.length}
        sums = [float(advantages[row].sum()) for row in self.rows.tolist()]
        columns["advantage"] = np.array(sums) / np.maximum(self.length, 1)
        if any(one is not None for one in self.correct):
            columns["correct"] = self.correct
        return Groups.from_flat(self.reward, self.uid, prompt_id=self.prompt, **columns)


def read_rollouts(batch: Any) -> Rollouts:
    """Return the rollouts of a batch from verl's TransferQueue."""
    fields = ["uid", "raw_prompt", "response_mask", "rm_scores", "extra_fields"]
    found = _fetch(batch, fields)
    data = {name: _rows(found, name, len(batch.keys)) for name in fields}
    return Rollouts(last_outputs(batch.keys), data)


def last_outputs(keys: Sequence[str]) -> list[int]:
    """Return the rows that hold the last output of a session, keys being ``uid_session_output``.

    Examples
    --------
    >>> last_outputs(["a_0_0", "a_0_1", "a_1_0", "b_0_0"])
    [1, 2, 3]
    """
    last: dict[str, tuple[int, int]] = {}
    for row, key in enumerate(keys):
        session, _, output = key.rpartition("_")
        last[session] = max(last.get(session, (-1, -1)), (int(output), row))
    return sorted(row for _, row in last.values())


def _fetch(batch: Any, fields: list[str]) -> Any:
    queue = importlib.import_module("transfer_queue")
    return queue.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=fields
    )


def _rows(found: Any, name: str, n_rows: int) -> list[Any]:
    """Return one entry per row of a field, None where it is missing."""
    if name not in found.keys():  # noqa: SIM118  a TensorDict iterates over rows
        return [None] * n_rows
    field = found[name]
    if getattr(field, "is_nested", False):
        return list(field.unbind())
    # texts and dictionaries come back as a list, as an array or as a stack of tensordict
    plain = hasattr(field, "tolist") and not hasattr(field, "requires_grad")
    return field.tolist() if plain else list(field)


def _identity(prompt: Any) -> str | None:
    text = text_of(prompt)
    return text_digest(text) if text else None


def _correct(extra: Any) -> float | None:
    """Return the verdict of verl's reward functions, ``acc``, where it is a number."""
    info = extra.get("reward_extra_info") if isinstance(extra, Mapping) else None
    verdict = info.get("acc") if isinstance(info, Mapping) else None
    return float(verdict) if isinstance(verdict, bool | int | float) else None


def _estimator(config: Any) -> VerlEstimator | None:
    from verl.trainer.ppo import core_algos

    found = core_algos.ADV_ESTIMATOR_REGISTRY.get(str(config.algorithm.adv_estimator))
    if not isinstance(found, VerlEstimator):
        return None
    found.built(config.algorithm)
    return found


def register() -> list[str]:
    """Enter a monitored form of every V1 trainer into verl's registry; safe to repeat."""
    from verl.trainer.ppo.v1 import trainer_base

    entered = []
    for mode in MODES:
        name, base = PREFIX + mode, trainer_base.TRAINER_REGISTRY.get(mode)
        if base is not None and name not in trainer_base.TRAINER_REGISTRY:
            kind = type(f"Monitored{base.__name__}", (Monitored, base), {})
            trainer_base.register_trainer(name)(kind)
        entered += [name] if base is not None else []
    return entered


if "verl" in sys.modules:
    try:
        register()
    except Exception as fault:
        logger.warning(
            "buttress could not register its trainers with verl (%s: %s); trainer_mode=%s* is "
            "unknown there",
            type(fault).__name__,
            fault,
            PREFIX,
        )

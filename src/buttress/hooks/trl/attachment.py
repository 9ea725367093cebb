"""What a trainer carries once a remedy is attached: estimator, counters, and its fault record."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE
from buttress.hooks import metrics
from buttress.hooks.faults import Faults
from buttress.hooks.monitor import Monitor
from buttress.hooks.sinks import known
from buttress.hooks.trl import logs as trl_logs
from buttress.hooks.trl import loss as trl_loss
from buttress.hooks.trl import rollouts as trl_rollouts
from buttress.hooks.trl import tokens as trl_tokens
from buttress.hooks.trl.acting import TrlActing
from buttress.hooks.trl.checks import check_monitor, check_trainer
from buttress.hooks.trl.plan import Plan, resolve
from buttress.hooks.trl.rollouts import Generation
from buttress.measures import Levels
from buttress.remedies.losses import Loss

STATE_FILE = "buttress_state.json"
FALLBACK = "TRL's own advantages are used"


class Attachment:
    """The remedy of one trainer. Only the constructor raises: it checks the configuration.

    All ranks hold the same estimator and feed it the same groups, so that their states stay equal
    without further communication.
    """

    def __init__(
        self,
        trainer: Any,
        remedy: Any,
        monitor: Any,
        options: dict[str, Any],
        *,
        loss: Any = None,
        belief: Any = None,
    ) -> None:
        check_trainer(trainer)
        check_monitor(monitor)
        self.use(resolve(trainer, remedy, options, loss, belief))
        self.monitor = monitor
        self.levels = Levels(math.nan, math.nan)  # lowest and highest reward of the run
        self.generations = 0
        self.faults = Faults(speaks=trainer.accelerator.is_main_process)
        self.acting = TrlActing(trainer, monitor, self.plan, self.faults)
        self._scored: tuple[Any, Any] | None = None
        self._logged: int | None = None  # the last step of the monitor in the logs

    def use(self, plan: Plan) -> None:
        """Compute advantages by this plan from now on."""
        self.plan, self.estimator = plan, plan.estimator
        self.tolerance = getattr(self.estimator, "tolerance", DEFAULT_TOLERANCE)

    def prepare(self, trainer: Any) -> None:
        """Do what the monitor's policies asked for, before a generation."""
        if trl_rollouts.mode_of(trainer) == "train":
            self.acting.carry_out(trainer, self)

    def keep(self, matrix: Any, completion_ids: Any) -> None:
        """Keep what `_calculate_rewards` returned, and the completions that it was given."""
        self._scored = matrix, completion_ids

    def apply(
        self,
        trainer: Any,
        inputs: Sequence[Mapping[str, Any]],
        output: MutableMapping[str, Any],
    ) -> None:
        """Replace this rank's advantages in the output of a generation, and report it."""
        n_rows = len(output["advantages"]) * trainer.accelerator.num_processes
        generation = self._gather(trainer, inputs, output)
        advantages = None
        if generation is not None and generation.mode == "train":
            advantages = self._replace(trainer, generation, output)
        if generation is not None and self.plan.loss is not None:
            self._inform(self.plan.loss, trainer, generation, advantages, output)
        with self.faults.shield("log its metrics", "some are missing"):
            self._log(trainer, generation, advantages)
        with self.faults.shield("fill the completions table", "its columns lack rows"):
            trl_logs.fill_table(trainer, generation, n_rows)
        if trl_rollouts.mode_of(trainer) == "train":
            self._watch(trainer, generation, advantages)

    def _watch(self, trainer: Any, generation: Generation | None, advantages: Any) -> None:
        """Update the monitor, which counts on the main process for all."""
        monitor = self.monitor
        if monitor is None:
            return
        if generation is not None and trainer.accelerator.is_main_process:
            with self.faults.shield("update the monitor", "the monitor missed a step"):
                groups = generation.with_advantages(advantages)
                if isinstance(monitor, Monitor):
                    monitor.total_steps = monitor.total_steps or trainer.state.max_steps or None
                    reading = {} if advantages is None else self.estimator
                    monitor.update(groups, step=generation.step, reading=reading)
                else:
                    monitor.update(groups, step=generation.step)
        self.acting.share(trainer, monitor)

    def log_line(self, trainer: Any) -> dict[str, float]:
        """Return the monitor's numbers for a log line of training, none if they are in one."""
        monitor = self.monitor
        if not isinstance(monitor, Monitor) or not trainer.accelerator.is_main_process:
            return {}
        if trl_rollouts.mode_of(trainer) != "train" or monitor.last_step == self._logged:
            return {}
        self._logged = monitor.last_step
        with self.faults.shield("log its monitor", "its numbers are missing"):
            return known(monitor.metrics())
        return {}

    def compute_loss(self, trainer: Any, model: Any, inputs: Mapping[str, Any]) -> Any:
        """Return the remedy's loss of a micro-batch, or None where TRL's own must be used."""
        if self.plan.loss is None:
            return None
        return trl_loss.compute(trainer, model, inputs, self.plan.loss, self.faults)

    def _gather(self, trainer: Any, inputs: Any, output: Mapping[str, Any]) -> Generation | None:
        scored, self._scored = self._scored, None
        facts, tokens = trl_rollouts.no_facts(output), None
        asks = self.plan.asks if trl_rollouts.mode_of(trainer) == "train" else ()
        with self.faults.shield("describe the rollouts", FALLBACK, own=True):
            if scored is None:
                raise RuntimeError("the trainer did not call _calculate_rewards")
            if asks:
                tokens = trl_tokens.local_columns(trainer, inputs, output, self.plan)
            facts = trl_rollouts.local_facts(trainer, inputs, scored[1], output)
        # every rank comes here, also after a fault: one that stayed away would hang the others
        facts = trainer.accelerator.gather(facts)
        if scored is None or not facts[:, 0].all():
            return None
        if tokens is not None:
            tokens = trl_tokens.gathered(trainer, tokens)
        with self.faults.shield("group the rollouts", FALLBACK):
            generation = trl_rollouts.build(trainer, scored[0], facts, self.generations)
            if tokens is not None:
                named = trl_tokens.named(tokens, asks)
                generation = generation.with_tokens(named, trl_tokens.per_sample(named))
            self.generations += 1
            self.levels = metrics.widened(self.levels, generation.groups, self.tolerance)
            self._check_prompts(generation)
            return generation
        return None

    def _check_prompts(self, generation: Generation) -> None:
        if trl_rollouts.mixes_prompts(generation.groups):
            self.faults.warn(
                "buttress sees groups that mix prompts: the data loader does not keep the "
                f"{generation.groups.sizes.max()} rollouts of a prompt together, and no "
                "group-relative advantage means anything"
            )

    def _inform(
        self,
        loss: Loss,
        trainer: Any,
        generation: Generation,
        advantages: Any,
        output: MutableMapping[str, Any],
    ) -> None:
        with self.faults.shield(
            "tell its loss about the groups", "if it needs them, TRL's own is used"
        ):
            columns = trl_loss.batch_columns(
                generation,
                advantages,
                loss,
                self.levels,
                self.tolerance,
                trainer.accelerator.process_index,
                output,
            )
            output.update(columns)

    def _replace(
        self, trainer: Any, generation: Generation, output: MutableMapping[str, Any]
    ) -> Any:
        """Return the advantages of all ranks, or None after a fault."""
        with self.faults.shield("compute advantages", FALLBACK):
            groups = generation.groups
            given = trl_tokens.estimate(self.estimator, self.plan.reward, groups, generation.tokens)
            advantages = trl_rollouts.checked(given, groups.values)
            rank = trainer.accelerator.process_index
            output["advantages"] = trl_rollouts.local_part(advantages, rank, output)
            return advantages
        return None

    def _log(self, trainer: Any, generation: Generation | None, advantages: Any) -> None:
        numbers: dict[str, float] = {}
        if generation is not None and generation.groups.sizes.max() > 1:
            numbers |= metrics.collapse_metrics(generation.groups, self.levels, self.tolerance)
        if generation is not None and advantages is not None:
            per_rollout = generation.per_rollout(advantages).tolist()
            trl_logs.rewrite_advantages(trainer, per_rollout)
            values = advantages.cpu().numpy()
            numbers["acr_after"] = metrics.acr_after(generation.groups, values, self.tolerance)
            numbers |= metrics.reading_metrics(self.estimator.reading)
        if trl_rollouts.mode_of(trainer) == "train":
            numbers["fallback"] = float(advantages is None)
        trl_logs.log_metrics(trainer, numbers)

    # --- with the trainer's checkpoint ---

    def save(self, trainer: Any, trial: Any) -> None:
        """Write the state into the checkpoint that the trainer is about to write."""
        if not trainer.args.should_save:
            return
        with self.faults.shield("save its state", "a resumed run will start the remedy afresh"):
            levels = [None if math.isnan(level) else level for level in self.levels]
            state = {
                "schema": 1,
                "estimator": self.estimator.state_dict(),
                "generations": self.generations,
                "levels": levels,
                "acting": self.acting.state(),
            }
            if hasattr(self.monitor, "state_dict"):
                state["monitor"] = self.monitor.state_dict()
            folder = Path(trainer._get_output_dir(trial=trial))
            path = folder / f"checkpoint-{trainer.state.global_step}" / STATE_FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(".half")
            half.write_text(json.dumps(state), encoding="utf-8")
            half.replace(path)

    def load(self, trainer: Any, checkpoint: str | None) -> None:
        """Take over the state of a checkpoint; without one, warn and start afresh.

        The main process reads it for all, so that no rank can come to another state.
        """
        if checkpoint is None:
            return
        from accelerate.utils import broadcast_object_list

        found: list[Any] = [None]
        doing, instead = "resume its state", "the remedy starts afresh"
        if trainer.accelerator.is_main_process:
            with self.faults.shield(doing, instead):
                text = (Path(checkpoint) / STATE_FILE).read_text(encoding="utf-8")
                found = [json.loads(text)]
                self._load_monitor(found[0].pop("monitor", None))
        (state,) = broadcast_object_list(found)
        if state is None:
            return
        with self.faults.shield(doing, instead):
            if "acting" in state:
                self.acting.restore(trainer, self, state["acting"])
            self.estimator.load_state_dict(state["estimator"])
            self.generations = int(state["generations"])
            levels = (math.nan if level is None else float(level) for level in state["levels"])
            self.levels = Levels(*levels)

    def _load_monitor(self, state: Any) -> None:
        if not hasattr(self.monitor, "load_state_dict"):
            return
        with self.faults.shield("resume its monitor", "the monitor starts afresh"):
            if state is None:
                raise UsageError("the checkpoint holds no state of a monitor")
            self.monitor.load_state_dict(state)

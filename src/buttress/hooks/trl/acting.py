"""What a monitor's policies may ask of TRL: another remedy, another temperature, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from buttress.errors import UsageError
from buttress.hooks.faults import Faults
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.actions import STOP, Event, Request, Sampling, Switch
from buttress.hooks.monitor.stopper import stopper
from buttress.hooks.trl.plan import Plan, resolve

if TYPE_CHECKING:
    from buttress.hooks.trl.attachment import Attachment


class TrlActing:
    """Carries out requests, the same ones on every rank and between two generations.

    The monitor counts on the main process alone; it decides and the others follow. The constructor
    raises `UsageError` where a policy asks for what this trainer cannot do.
    """

    def __init__(self, trainer: Any, monitor: Any, plan: Plan, faults: Faults) -> None:
        policies = monitor.policies if isinstance(monitor, Monitor) else ()
        wanted = [action for policy in policies for action in policy.actions]
        self.asks = any(one == STOP or isinstance(one, Switch | Sampling) for one in wanted)
        self.switched: Switch | None = None
        self.sampling: dict[str, float] = {}
        self._faults = faults
        self._due: list[tuple[Event, Request]] = []
        self._stopping = False
        for action in wanted:
            if isinstance(action, Switch):
                switched_plan(trainer, plan, action)
            if isinstance(action, Sampling):
                _check_sampling(trainer)
        if STOP in wanted:
            trainer.add_callback(stopper(lambda: self._stopping))

    def share(self, trainer: Any, monitor: Any) -> None:
        """Take over what the main process is asked for; every rank must come here."""
        if not self.asks:
            return
        from accelerate.utils import broadcast_object_list

        due: list[Any] = [[]]
        if trainer.accelerator.is_main_process:
            with self._faults.shield("ask its monitor what to do", "nothing is done"):
                due = [monitor.requests()]
        # every rank comes here, also after a fault: one that stayed away would hang the others
        broadcast_object_list(due)
        self._due += due[0]
        self._stopping |= any(request == STOP for _, request in due[0])

    def carry_out(self, trainer: Any, attachment: Attachment) -> None:
        """Do what is due, before a generation."""
        due, self._due = self._due, []
        for _, request in due:
            with self._faults.shield(str(request), "everything stays as it was"):
                if isinstance(request, Switch):
                    self._switch(trainer, attachment, request)
                elif isinstance(request, Sampling):
                    self._sample(trainer, request.changes)

    def _switch(self, trainer: Any, attachment: Attachment, request: Switch) -> None:
        attachment.use(switched_plan(trainer, attachment.plan, request))
        self.switched = request

    def _sample(self, trainer: Any, changes: Mapping[str, float]) -> None:
        for name, value in changes.items():
            for holder in _samplers(trainer):
                setattr(holder, name, value)
            getattr(trainer, "generation_kwargs", {})[name] = value
        self.sampling |= changes

    def state(self) -> dict[str, Any]:
        """Return what was changed, in plain Python objects that JSON can hold."""
        switched = self.switched
        return {
            "switched": None if switched is None else [switched.remedy, dict(switched.options)],
            "sampling": self.sampling,
        }

    def restore(self, trainer: Any, attachment: Attachment, state: Mapping[str, Any]) -> None:
        """Do once more what had been changed at a checkpoint."""
        if state["switched"] is not None:
            remedy, options = state["switched"]
            self._switch(trainer, attachment, Switch(remedy, options))
        self._sample(trainer, state["sampling"])


def switched_plan(trainer: Any, plan: Plan, request: Switch) -> Plan:
    """Return the plan with the advantages of another remedy, or raise `UsageError`."""
    if plan.reward is not None:
        raise UsageError(
            f"cannot {request}: the remedy is an internal reward, whose advantages are its own"
        )
    other = resolve(trainer, request.remedy, dict(request.options))
    return Plan(other.estimator, None, plan.loss, plan.belief)


def _samplers(trainer: Any) -> list[Any]:
    """Return every object that holds what completions are sampled with."""
    names = ("generation_config", "vllm_generation")
    return [trainer, *(getattr(trainer, name) for name in names if hasattr(trainer, name))]


def _check_sampling(trainer: Any) -> None:
    if not (hasattr(trainer, "temperature") and len(_samplers(trainer)) > 1):
        raise UsageError(
            f"this {type(trainer).__name__} does not show what it samples with; Sampling needs "
            "temperature and generation_config (or vllm_generation)"
        )

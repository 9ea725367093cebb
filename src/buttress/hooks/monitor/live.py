"""An estimator inside a trainer that hands over rewards and takes advantages back, no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.groups.arrays import take, to_numpy
from buttress.hooks.metrics import collapse_metrics, reading_metrics, widened
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.actions import Sampling, Switch
from buttress.hooks.sinks import known
from buttress.measures import Levels
from buttress.remedies import estimator


class LiveEstimator:
    """A remedy that is fed one step after the other, and what the last step showed.

    Attributes
    ----------
    estimate
        The estimator; its `state_dict` is what to save with a checkpoint.
    metrics
        ``buttress/acr``, ``buttress/all_wrong``, ``buttress/all_correct``, ``buttress/acr_after``
        and the numbers of the remedy's own reading, and those of the monitor that are known; empty
        before the first step.
    monitor
        A `Monitor` that sees every step, or None.
    step
        The step that the next call is for; counted from 1 unless it is set.
    """

    def __init__(
        self, remedy: str, options: Mapping[str, Any], monitor: Monitor | None = None
    ) -> None:
        self.estimate = estimator(remedy, **options)
        self.monitor = monitor
        self.step = 1
        self.metrics: dict[str, float] = {}
        self._levels = Levels(np.nan, np.nan)
        self._switched: Switch | None = None
        self._due: list[Switch] = []

    def __call__(self, groups: Groups) -> Any:
        """Return one advantage per row of the input that the groups were built from."""
        for request in self._due:
            self._switch(request)
        self._due = []
        flat = self.estimate(groups)
        self._levels = widened(self._levels, groups, self.estimate.tolerance)
        reading = self.estimate.reading
        found = {
            **collapse_metrics(groups, self._levels, self.estimate.tolerance),
            "acr_after": reading["acr_after"],
            **reading_metrics(reading),
        }
        self.metrics = {f"buttress/{name}": float(value) for name, value in found.items()}
        if self.monitor is not None:
            self._watch(self.monitor, groups, flat)
        self.step += 1
        row = np.empty_like(groups.order)
        row[groups.order] = np.arange(len(row))
        return take(flat, row)

    def _watch(self, monitor: Monitor, groups: Groups, advantages: Any) -> None:
        columns = {**groups.columns, "advantage": to_numpy(advantages)}
        monitor.update(replace(groups, columns=columns), step=self.step, reading=self.estimate)
        self.metrics |= known(monitor.metrics())
        for _, request in monitor.requests():
            if isinstance(request, Switch):
                self.use(request)

    def use(self, request: Switch) -> None:
        """Use another remedy from the next call on."""
        self._due.append(request)

    def _switch(self, request: Switch) -> None:
        self.estimate = estimator(request.remedy, **request.options)
        self._switched = request

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has to keep, in plain Python objects that JSON can hold."""
        switched = self._switched
        return {
            "estimator": self.estimate.state_dict(),
            "switched": None if switched is None else [switched.remedy, dict(switched.options)],
            "monitor": None if self.monitor is None else self.monitor.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state; raises where it belongs to another remedy."""
        if state.get("switched") is not None:
            remedy, options = state["switched"]
            self._switch(Switch(remedy, options))
        self.estimate.load_state_dict(state["estimator"])
        if self.monitor is not None and state.get("monitor") is not None:
            self.monitor.load_state_dict(state["monitor"])

    def per_token(self, rewards: Any, mask: Any, index: Any, *, prompt_id: Any = None) -> Any:
        """Return advantages ``(response, token)`` from rewards and a mask of that shape.

        Rewards are summed over tokens; groups are the responses of one `index`. Every token of
        `mask` gets the advantage of its response.
        """
        totals = rewards.sum(dim=-1).detach()
        groups = Groups.from_flat(
            totals, np.asarray(index), prompt_id=prompt_id, length=mask.sum(dim=-1)
        )
        return self(groups).unsqueeze(-1) * mask


def check_offer(remedy: str, wanted: Collection[str], offered: Collection[str], who: str) -> None:
    """Raise `UsageError` where a remedy needs what a trainer does not hand over."""
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise UsageError(
            f"remedy {remedy!r} needs {', '.join(missing)} of each rollout, which {who} does not "
            f"hand over; it hands over reward, {', '.join(offered)}"
        )


def check_policies(monitor: Monitor | None, offered: Collection[str], who: str) -> None:
    """Raise `UsageError` where a policy asks for what a trainer cannot do."""
    actions = [] if monitor is None else [one for p in monitor.policies for one in p.actions]
    for action in actions:
        if isinstance(action, Sampling):
            raise UsageError(f"{who} does not let a hook change how it samples: {action}")
        if isinstance(action, Switch):
            wanted = estimator(action.remedy, **action.options).wanted
            check_offer(action.remedy, wanted, offered, who)

"""The policies of one run: who speaks now, what was done, what the trainer is asked for."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from buttress.hooks.faults import Faults
from buttress.hooks.monitor.actions import STOP, Event, Request, Sampling, Switch, kind_of
from buttress.hooks.monitor.policies import Number, Policy, Watch

EVENTS = 1000  # that are kept

logger = logging.getLogger("buttress.monitor")


class Acting:
    """Looks at every step with every policy, and carries out what they say.

    Attributes
    ----------
    events
        What was done, the last `EVENTS` of it.
    news
        The events that nobody fetched with `fetch_news` yet.
    stop
        The event that asks for the end of the run.
    """

    def __init__(self, policies: tuple[Policy, ...], warmup: int, faults: Faults) -> None:
        self.warmup = warmup
        self.events: list[Event] = []
        self.news: list[Event] = []
        self.stop: Event | None = None
        self._watches = [Watch(policy) for policy in policies]
        self._requests: list[tuple[Event, Request]] = []
        self._faults = faults

    @property
    def fired(self) -> int:
        """How often the policies acted."""
        return sum(watch.fired for watch in self._watches)

    def look(self, step: int, steps_seen: int, number: Number) -> None:
        """Take in a step; `number` tells what a condition asks for."""
        if steps_seen <= self.warmup:
            return
        seen: dict[str, float] = {}

        def once(name: str) -> float:
            if name not in seen:
                seen[name] = number(name)
            return seen[name]

        for watch in self._watches:
            evidence = watch.look(step, once)
            if evidence is not None:
                self._act(step, watch.policy, evidence)

    def _act(self, step: int, policy: Policy, evidence: Mapping[str, float]) -> None:
        for action in policy.actions:
            kind = kind_of(action)
            name = "" if policy.name == str(policy.condition) else f"{policy.name}: "
            what = str(action) if kind in ("switch", "sampling") else kind
            said = f"{name}{policy.condition} for {policy.for_steps} steps; {what}"
            event = Event(step, policy.name, kind, said, evidence)
            self.note(event)
            if isinstance(action, Switch | Sampling):
                self._ask(event, action)
            elif action == STOP:
                self.stop = self.stop or event
                self._ask(event, STOP)
            elif callable(action):
                with self._faults.shield(f"call {action!r} for {policy.name}", "it did nothing"):
                    action(event)

    def _ask(self, event: Event, request: Request) -> None:
        self._requests = [*self._requests[1 - EVENTS :], (event, request)]

    def note(self, event: Event) -> None:
        """Write an event to the log."""
        level = logging.INFO if event.action == "log" else logging.WARNING
        shown = ", ".join(f"{name} {value:.4g}" for name, value in event.evidence.items())
        logger.log(level, "step %d: %s (%s)", event.step, event.message, shown or "no evidence")
        self.events = [*self.events[1 - EVENTS :], event]
        self.news = [*self.news[1 - EVENTS :], event]

    def requests(self) -> list[tuple[Event, Request]]:
        """Return what is asked of the trainer since the last call, oldest first."""
        due, self._requests = self._requests, []
        return due

    def fetch_news(self) -> list[Event]:
        """Return the events since the last call, oldest first."""
        due, self.news = self.news, []
        return due

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        return {
            "policies": {watch.policy.name: watch.state() for watch in self._watches},
            "events": [event.as_dict() for event in self.events],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state; what was asked of a trainer and not done is forgotten."""
        events = [_event(one) for one in state["events"]]
        for watch in self._watches:
            if watch.policy.name in state["policies"]:
                watch.restore(state["policies"][watch.policy.name])
        self.events, self.news, self.stop, self._requests = events, [], None, []


def _event(state: Mapping[str, Any]) -> Event:
    evidence = {
        str(name): math.nan if one is None else float(one)
        for name, one in state["evidence"].items()
    }
    policy, action, message = (str(state[name]) for name in ("policy", "action", "message"))
    return Event(int(state["step"]), policy, action, message, evidence)

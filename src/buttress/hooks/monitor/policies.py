"""When a monitor speaks up or acts: conditions with hysteresis, a budget and no storms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.monitor.actions import Action, read_actions
from buttress.hooks.monitor.conditions import Condition
from buttress.remedies import options
from buttress.rules import thresholds as at

Number = Callable[[str], float]


@dataclass(frozen=True)
class Policy:
    """One state to look out for, and what to do when it lasts.

    Parameters
    ----------
    when
        ``"acr > 0.5"``, several of them joined by ``and``, or the name of a rule
        (``"all-wrong-collapse"``, ...) as listed in `conditions.RULES`. Numbers are those of
        `Monitor.metrics`, also over a scope: ``acr``, ``acr_window``, ``acr_early``, ``acr_run``,
        ``acr/correct``, ``acr_window/reward/format``, ``reading/threshold``.
    then
        ``"log"``, ``"warn"``, ``"stop"`` (finish the step, save, end the run), a function of the
        event, `Switch`, `Sampling`, or a sequence of them.
    until
        What ends the state; by default any of the numbers 10 % of its limit on the good side. Only
        after it has ended can the policy act again.
    for_steps
        Steps in a row that must show the state, and its end, before it counts.
    cooldown
        Steps that must lie between two actions.
    budget
        Actions in a whole run.
    name
        What log lines call it; by default `when`.

    Examples
    --------
    >>> Policy(when="acr > 0.5", for_steps=20, then="warn").name
    'acr > 0.5'
    """

    when: str
    then: Any = "warn"
    until: str | None = None
    for_steps: int = 10
    cooldown: int = 50
    budget: int = 3
    name: str = ""
    condition: Condition = field(init=False, repr=False, compare=False)
    end: Condition = field(init=False, repr=False, compare=False)
    actions: tuple[Action, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options.whole("for_steps", self.for_steps, 1)
        options.whole("cooldown", self.cooldown, 0)
        options.whole("budget", self.budget, 1)
        condition = Condition.parse(self.when)
        end = condition.released if self.until is None else Condition.parse(self.until, "until")
        if not isinstance(self.name, str):
            raise UsageError(f"the name of a policy must be a text; got {self.name!r}")
        for name, value in (
            ("condition", condition),
            ("end", end),
            ("actions", read_actions(self.then)),
            ("name", self.name or self.when),
        ):
            object.__setattr__(self, name, value)


# Warnings that a monitor gives unless it is told otherwise. None of them speaks of a run that has
# mastered its prompts.
DEFAULTS = (
    Policy("truncation-collapse", for_steps=at.STALLED_STEPS),
    Policy("all-wrong-collapse", for_steps=at.STALLED_STEPS),
    Policy("component-collapse", for_steps=at.STALLED_STEPS),
    Policy("unscorable-rewards"),
)


def read_policies(policies: Any) -> tuple[Policy, ...]:
    """Return policies, `DEFAULTS` for None; anything else raises `UsageError`."""
    if policies is None:
        return DEFAULTS
    if isinstance(policies, Policy):
        policies = [policies]
    if not isinstance(policies, Sequence) or not all(isinstance(p, Policy) for p in policies):
        raise UsageError(f"policies must be a list of Policy(when=..., then=...); got {policies!r}")
    names = [policy.name for policy in policies]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two policies are called {name!r}: give one of them a name=")
    return tuple(policies)


class Watch:
    """How far one policy has come in a run.

    A number that is unknown is no evidence: it neither continues a row of steps nor breaks it.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.active = False
        self.fired = 0
        self._last_fired: int | None = None
        self._row = 0  # steps in a row that spoke for a change
        self._before = 0  # the same without the step that still grows
        self._step: int | None = None

    def look(self, step: int, number: Number) -> dict[str, float] | None:
        """Take in a step; return the evidence if the policy acts now."""
        if step != self._step:
            self._before, self._step = self._row, step
        wanted = self.policy.end if self.active else self.policy.condition
        found, evidence = wanted.holds(number)
        self._row = self._before + 1 if found else self._before if found is None else 0
        if self._row < self.policy.for_steps or not found:
            return None
        if self.active:
            self.active, self._row, self._before = False, 0, 0
            return None
        if not self._may(step):
            return None
        self.active, self._row, self._before = True, 0, 0
        self.fired, self._last_fired = self.fired + 1, step
        return evidence

    def _may(self, step: int) -> bool:
        rested = self._last_fired is None or step - self._last_fired >= self.policy.cooldown
        return rested and self.fired < self.policy.budget

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        return {
            "when": self.policy.when,
            "active": self.active,
            "fired": self.fired,
            "last_fired": self._last_fired,
            "row": self._row,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state, unless the policy of this name is another one now."""
        if state["when"] != self.policy.when:
            return
        self.active, self.fired = bool(state["active"]), int(state["fired"])
        self._last_fired = None if state["last_fired"] is None else int(state["last_fired"])
        self._row = self._before = int(state["row"])
        self._step = None

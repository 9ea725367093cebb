"""What a policy does: by itself (log, warn, call) or through the trainer (the rest)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.registry import page


class Event(NamedTuple):
    """One action of a policy, as it is written to the log.

    Attributes
    ----------
    action
        ``log``, ``warn``, ``call``, ``stop``, ``switch``, ``sampling``; ``failed`` where an action
        could not be carried out.
    evidence
        The numbers that the condition looked at.
    """

    step: int
    policy: str
    action: str
    message: str
    evidence: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return the event with None for unknown numbers."""
        known = {name: None if one != one else one for name, one in self.evidence.items()}
        return self._asdict() | {"evidence": known}


@dataclass(frozen=True)
class Switch:
    """Use another remedy from the next generation on.

    Parameters
    ----------
    remedy
        A name in ``buttress remedies`` that gives advantages.
    options
        Its options, checked at once.

    Examples
    --------
    >>> str(Switch("avspo", {"threshold": 0.3}))
    'switch to avspo'
    """

    remedy: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from buttress.remedies import estimator

        kind = page(self.remedy).kind
        if kind != "advantage":
            raise UsageError(
                f"Switch needs a remedy that gives advantages; {self.remedy!r} is a {kind} remedy"
            )
        estimator(self.remedy, **self.options)

    def __str__(self) -> str:
        return f"switch to {self.remedy}"


@dataclass(frozen=True)
class Sampling:
    """Change how completions are sampled from the next generation on.

    Parameters
    ----------
    temperature, top_p
        The new values; None leaves one as it is.

    Examples
    --------
    >>> str(Sampling(temperature=1.2))
    'sample with temperature 1.2'
    """

    temperature: float | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.changes:
            raise UsageError("Sampling needs temperature= or top_p=")
        if self.temperature is not None:
            options.number("temperature", self.temperature, 0, 10, above=True)
        if self.top_p is not None:
            options.number("top_p", self.top_p, 0, 1, above=True)

    @property
    def changes(self) -> dict[str, float]:
        """The new values by name."""
        both = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in both.items() if value is not None}

    def __str__(self) -> str:
        return "sample with " + ", ".join(f"{name} {one:g}" for name, one in self.changes.items())


STOP = "stop"
Request = Switch | Sampling | str  # what only the trainer can do; the text is STOP
Action = Request | Callable[[Event], Any]


def read_actions(then: Any) -> tuple[Action, ...]:
    """Return the actions that a policy names; anything else raises `UsageError`."""
    given = then if isinstance(then, tuple | list) else (then,)
    for one in given:
        if not (one in ("log", "warn", STOP) or isinstance(one, Switch | Sampling) or _plain(one)):
            raise UsageError(
                "then must be 'log', 'warn', 'stop', a function of the event, "
                f"Switch('<remedy>') or Sampling(temperature=...), or a list of them; got {one!r}"
            )
    if not given:
        raise UsageError("then is empty: say what to do, or leave the policy out")
    return tuple(given)


def kind_of(action: Action) -> str:
    """Return the name of an action as it stands in the log."""
    if isinstance(action, Switch):
        return "switch"
    if isinstance(action, Sampling):
        return "sampling"
    return action if isinstance(action, str) else "call"


def _plain(one: Any) -> bool:
    return callable(one) and not isinstance(one, type)

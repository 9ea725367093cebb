"""What a policy waits for: ``"acr_window > 0.35 and reward_mean < 0.1"``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from buttress.errors import UsageError
from buttress.hooks.monitor.readout import NAMES, SHARES, split
from buttress.rules import thresholds as at

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CLAUSE = re.compile(r"\s*([\w/.\-]+)\s*(>=|<=|>|<)\s*([-+.\w]+)\s*")
_MARGIN = 0.1

# What the rules of these names look for, on the numbers that a monitor has at hand.
RULES = {
    "advantage-collapse": f"acr_window > {at.ACR_STALLED}",
    "all-wrong-collapse": f"acr_window > {at.ACR_STALLED} and "
    f"wrong_of_tied_window > {at.DOMINANT_KIND}",
    "all-correct-collapse": f"acr_window > {at.ACR_STALLED} and "
    f"correct_of_tied_window > {at.DOMINANT_KIND}",
    "truncation-collapse": f"acr_window > {at.ACR_STALLED} and "
    f"truncated_ties_window > {at.EXPLAINS}",
    "component-collapse": f"acr_correctness_window > {at.COMPONENT_DEAD} and "
    f"acr_window < {round(at.COMPONENT_DEAD - at.COMPONENT_GAP, 9)}",
    "near-tie-blow-up": f"near_tied_window > {at.NEAR_TIED_SHARE}",
    "unscorable-rewards": f"unscorable_share_window > {at.UNSCORABLE_SHARE}",
}


@dataclass(frozen=True, slots=True)
class Clause:
    """One comparison of a number of the monitor with a limit."""

    name: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.limit:g}"

    @property
    def released(self) -> Clause:
        """The opposite, a tenth of the limit further: what a number that is well again passes."""
        margin = _MARGIN * abs(self.limit) or 0.01
        above = self.sign[0] == ">"
        # short: limits are read by people
        limit = round(self.limit - margin if above else self.limit + margin, 12)
        return Clause(self.name, "<" if above else ">", limit)


@dataclass(frozen=True, slots=True)
class Condition:
    """Several clauses, all of which must hold, or with `any_of` one of them."""

    clauses: tuple[Clause, ...]
    any_of: bool = False

    def __str__(self) -> str:
        return (" or " if self.any_of else " and ").join(map(str, self.clauses))

    @classmethod
    def parse(cls, text: str, what: str = "when") -> Condition:
        """Read a condition, or the name of a rule in `RULES`; raises `UsageError`."""
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"{what} must be a condition such as 'acr > 0.5'; got {text!r}")
        if text in RULES:
            text = RULES[text]
        return cls(tuple(_clause(part, what) for part in re.split(r"\band\b", text)))

    def holds(self, number: Callable[[str], float]) -> tuple[bool | None, dict[str, float]]:
        """Return whether it is so (None: unknown), and the numbers that were looked at.

        Clauses are asked in their order, and no further than the answer needs.
        """
        seen, unknown = {}, False
        for clause in self.clauses:
            value = seen[clause.name] = number(clause.name)
            if value != value:
                unknown = True
            elif _COMPARE[clause.sign](value, clause.limit) is self.any_of:
                return self.any_of, seen
        return None if unknown else not self.any_of, seen

    @property
    def released(self) -> Condition:
        """What ends the state unless the user says otherwise: any clause well past its limit."""
        return Condition(tuple(clause.released for clause in self.clauses), any_of=True)


def _clause(text: str, what: str) -> Clause:
    found = _CLAUSE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{what} must read like 'acr > 0.5 and reward_mean < 0.1', or name one of "
            f"{', '.join(RULES)}; got {text.strip()!r}"
        )
    name, sign, limit = found.groups()
    try:
        number = float(limit)
    except ValueError:
        raise UsageError(f"{what} compares {name} with {limit!r}, which is no number") from None
    if number != number:
        raise UsageError(f"{what} compares {name} with nan, which nothing is above or below")
    return Clause(_known(name), sign, number)


def _known(name: str) -> str:
    """Return a name without the tracker's prefix; one that no monitor has raises `UsageError`."""
    name = name.removeprefix("buttress/")
    base, _ = split(name)
    component = base.startswith(("acr/correct", "acr/reward/"))
    if name in NAMES or component or name.startswith("reading/"):
        return name
    known = [*SHARES, *NAMES, "acr/correct", "acr/reward/<name>", "reading/<name>"]
    raise UsageError.unknown("number", name, dict.fromkeys(known))

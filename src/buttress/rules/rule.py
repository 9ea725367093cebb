"""How a rule is declared, and the book of all rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from buttress.errors import UsageError
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Evidence, Finding, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, its code, its page and its check.

    Attributes
    ----------
    explains
        Rules whose findings are consequences of this one; they stand after it in every report.
    """

    name: str
    code: str
    explains: tuple[str, ...]
    check: Callable[[Case], Iterator[Finding]]

    @property
    def page(self) -> str:
        """What `buttress explain` shows: the docstring of the check."""
        return inspect.getdoc(self.check) or ""

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0]

    def finding(
        self,
        severity: Severity,
        message: str,
        evidence: Evidence,
        advice: Iterable[Advice] = (),
        steps: tuple[int, int] | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(self.name, self.code, severity, message, evidence, tuple(advice), steps)


RULES: dict[str, Rule] = {}
Check = Callable[[Rule, Case], Iterator[Finding]]


def rule(name: str, code: str, *, explains: tuple[str, ...] = ()) -> Callable[[Check], Check]:
    """Enter a check into the book of rules; a name or code may be taken once.

    The docstring of the check is the rule's page, with the headings: What it sees, Why it
    matters, How sure, What to do, When to ignore, References.
    """

    def enter(check: Check) -> Check:
        if name in RULES or any(code == known.code for known in RULES.values()):
            raise ValueError(f"rule {name} ({code}) is entered twice")

        def bound(case: Case) -> Iterator[Finding]:
            return check(RULES[name], case)

        bound.__doc__ = check.__doc__
        RULES[name] = Rule(name, code, explains, bound)
        return check

    return enter


def find_rules(names: Iterable[str] | str | None) -> set[str]:
    """Return rule names for names, codes or code prefixes (`BT1`); others raise `UsageError`.

    None names no rule.
    """
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        names = [names]
    found: set[str] = set()
    for name in names or ():
        if not isinstance(name, str):
            raise UsageError.unknown("rule", name, RULES)
        hits = {rule.name for rule in RULES.values() if name == rule.name}
        hits = hits or {rule.name for rule in RULES.values() if rule.code.startswith(name.upper())}
        if not hits:
            raise UsageError.unknown("rule", name, RULES)
        found |= hits
    return found

"""Examine a run by the book of rules."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import TopologicalSorter
from typing import Literal

import numpy as np

from buttress.rules.case import Case
from buttress.rules.finding import Finding, Severity
from buttress.rules.log_lines import ZERO_STD
from buttress.rules.rule import RULES, find_rules

Verdict = Literal["healthy", "attention", "collapsed", "undefined"]


def examine(case: Case, *, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[Finding]:
    """Return all findings, causes before their consequences and the worst first.

    Parameters
    ----------
    select, ignore
        Rule names, codes or code prefixes; `select` empty means all.
    """
    chosen = (find_rules(select) or set(RULES)) - find_rules(ignore)
    # rewards near the limits of float64 overflow to infinity, which every line stands
    with np.errstate(all="ignore"):
        found = [finding for name in sorted(chosen) for finding in RULES[name].check(case)]
    rank = {name: place for place, name in enumerate(_causes_first())}
    severity: dict[str, int] = {}
    for finding in found:
        severity[finding.rule] = max(severity.get(finding.rule, 0), finding.severity)
    # a cause is at least as pressing as what it explains
    for name in reversed(list(rank)):
        worst = max((severity.get(effect, 0) for effect in RULES[name].explains), default=0)
        if name in severity:
            severity[name] = max(severity[name], worst)
    return sorted(found, key=lambda one: (-severity[one.rule], rank[one.rule], -one.severity))


def verdict(case: Case, findings: Iterable[Finding]) -> Verdict:
    """Return the one-word answer.

    ``undefined`` where the ACR cannot be measured although rollouts are there, or where nothing is
    there that tells (no rollouts, no frac_reward_zero_std, no finding), ``collapsed`` when an error
    says that the advantages (or correctness under them) are dead, ``attention`` when anything is a
    warning or worse.
    """
    findings = list(findings)
    if len(case.groups) and case.undefined:
        return "undefined"
    errors = {one.rule for one in findings if one.severity is Severity.ERROR}
    if errors & COLLAPSE_RULES:
        return "collapsed"
    if any(one.severity > Severity.INFO for one in findings):
        return "attention"
    tells = len(case.groups) or case.run.scalar(ZERO_STD) is not None
    return "healthy" if tells else "undefined"


COLLAPSE_RULES = {
    "advantage-collapse",
    "all-wrong-collapse",
    "all-correct-collapse",
    "truncation-collapse",
    "component-collapse",
    "format-saturated",
    "phantom-signal",
}


def _causes_first() -> list[str]:
    graph: dict[str, set[str]] = {name: set() for name in sorted(RULES)}
    for known in RULES.values():
        for effect in known.explains:
            graph.setdefault(effect, set()).add(known.name)
    return [name for name in TopologicalSorter(graph).static_order() if name in RULES]

"""The top of the report: the verdict in a sentence, the key numbers, what was read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from buttress.measures import KINDS
from buttress.report import phrases
from buttress.report.chart import Colour
from buttress.report.hostile import clip, safe_name, safe_text
from buttress.report.over_steps import KIND_COLOURS, KIND_NAMES
from buttress.rules import Case, Finding, Severity
from buttress.rules.engine import COLLAPSE_RULES

PATHS = 3
PATH_CHARACTERS = 200
INFERRED_CHARACTERS = 2000
DEAD_CORRECTNESS = 0.2  # ours: correctness ties this much more often than the reward


class Number(NamedTuple):
    """A key number in words; where it is unknown the value is a dash and the note the reason."""

    label: str
    value: str
    note: str = ""


class Part(NamedTuple):
    """One kind of group and its share of all groups."""

    name: str
    colour: Colour
    groups: int
    share: float
    text: str


def read_from(case: Case) -> str:
    """Return the paths of the run, or the directory that many files share."""
    paths = case.run.source.paths
    if len(paths) > PATHS and len({path.startswith(os.sep) for path in paths}) == 1:
        shared = os.path.commonpath(paths) or "."
        return f"{safe_text(clip(shared, PATH_CHARACTERS))} ({len(paths):,} files)"
    named = (safe_text(clip(path, PATH_CHARACTERS)) for path in paths)
    return phrases.listed(named, PATHS) or "in memory"


def sentence(case: Case, measures: dict[str, Any], findings: Sequence[Finding] = ()) -> str:
    """Return the verdict in a few sentences: an error that is not about ties comes first."""
    if not len(case.groups):
        return "The log holds no rollouts, so that no group could be examined."
    if case.undefined:
        return f"The collapse rate cannot be measured here: {safe_text(case.undefined)}."
    said = _tied(case)
    correct = case.acr_by_reward.get("correct", np.nan)
    if correct - case.acr > DEAD_CORRECTNESS:
        said += f"; in correctness alone {phrases.percent(correct)} are tied"
    said += f". {phrases.percent(measures['effective_batch'])} of the rollouts carry a signal."
    first = findings[0] if findings else None
    if first and first.severity is Severity.ERROR and first.rule not in COLLAPSE_RULES:
        message = safe_text(first.message)
        return f"{message[:1].upper()}{message[1:]}. {said}"
    return said


def _tied(case: Case) -> str:
    counts = case.counts
    if not counts.tied:
        return f"None of the {phrases.count(case.collapse.eligible, 'group')} is tied"
    kind = max(KINDS, key=lambda name: getattr(counts, name))
    share = getattr(counts, kind) / counts.tied
    most = "all of them" if share == 1 else "most of them" if share > 0.5 else "most often"
    tied = phrases.percent(case.acr)
    return f"{tied} of the groups are tied and teach nothing, {most} {KIND_NAMES[kind]}"


def numbers(case: Case, measures: dict[str, Any]) -> list[Number]:
    """Return the key numbers; those that mean nothing here are dashes with the reason."""
    why = safe_text(case.undefined or "")
    counts, unscorable = case.counts, measures["rollouts"]["unscorable"]
    extra = {
        "Near-tied groups": (counts.near_tied, "their range is within the resolution"),
        "Unscorable groups": (counts.unscorable, "fewer than two rewards are known"),
        "Singletons": (counts.singleton, "groups of one rollout"),
        "Unscorable rollouts": (unscorable, "null or NaN rewards"),
    }
    return [
        *(Number(name, phrases.DASH, why) for name in _RATES[:1] if why),
        *(Number(name, phrases.DASH, "for the same reason") for name in _RATES[1:] if why),
        *(() if why else _rates(case, measures)),
        *(Number(name, f"{n:,}", note) for name, (n, note) in extra.items() if n),
    ]


_RATES = ("Collapse rate (ACR)", "Effective batch", "Wasted rollouts", "Wasted tokens")


def _rates(case: Case, measures: dict[str, Any]) -> list[Number]:
    rollouts, wasted = case.groups.n_samples, measures["rollouts"]["wasted"]
    tokens = measures["wasted_tokens"]
    length = case.groups.column("length")
    total = 0 if length is None else int(np.nansum(length))
    of_tokens = f"of {total:,} ({phrases.percent(tokens, total)})"
    shown = [
        (phrases.rate(measures["acr"]), f"95% interval {phrases.span(*measures['acr_interval'])}"),
        (phrases.rate(measures["effective_batch"]), "share of rollouts in mixed groups"),
        (
            phrases.number(wasted),
            f"of {rollouts:,} ({phrases.percent(wasted, rollouts)}), in tied groups",
        ),
        (phrases.number(tokens), of_tokens if tokens is not None else "the log holds no lengths"),
    ]
    return [Number(name, *one) for name, one in zip(_RATES, shown, strict=True)]


def parts(case: Case) -> tuple[Part, ...]:
    """Return the groups by kind, the mixed ones first; rare kinds only where they occur."""
    counts, total = case.counts, len(case.groups)
    rows: list[tuple[str, Colour, int]] = [("mixed", "mixed", counts.mixed)]
    rows += [(KIND_NAMES[kind], KIND_COLOURS[kind], getattr(counts, kind)) for kind in KINDS]
    rows += [("unscorable or single", "muted", counts.unscorable + counts.singleton)]
    return tuple(
        Part(name, colour, n, n / total, f"{n:,} ({phrases.percent(n, total)})")
        for name, colour, n in rows
        if total and (n or colour not in ("between", "muted"))
    )


def facts(case: Case) -> list[tuple[str, str]]:
    """Return what was read, how, and by which tolerance."""
    groups, source, tolerance = case.groups, case.run.source, case.tolerance
    facts = [
        ("Read from", read_from(case)),
        ("Format", safe_name(source.format)),
        ("Rollouts", f"{groups.n_samples:,} in {phrases.count(len(groups), 'group')}"),
        ("Group sizes", _sizes(groups.sizes)),
        ("Steps", _step_range(groups.step)),
        (
            "Tied",
            f"max − min ≤ {tolerance.atol:g} + {tolerance.rtol:g} · max|r|, in float64",
        ),
        ("Near-tied", f"range ≤ {tolerance.resolution:g} of the reward's scale in the run"),
    ]
    inferred = [safe_text(clip(one, INFERRED_CHARACTERS)) for one in source.inferred]
    facts += [("Inferred", one) for one in inferred] or [("Inferred", "nothing")]
    return facts


def _sizes(sizes: np.ndarray) -> str:
    values, numbers = np.unique(sizes, return_counts=True)
    order = np.argsort(-numbers, kind="stable")
    rows = (f"{values[place]} ({phrases.count(numbers[place], 'group')})" for place in order)
    return phrases.listed(rows, 4) or phrases.DASH


def _step_range(step: np.ndarray) -> str:
    distinct = np.unique(step)
    if not len(distinct):
        return phrases.DASH
    if len(distinct) == 1:
        return f"1 (step {distinct[0]})"
    return f"{len(distinct):,}, from {distinct[0]} to {distinct[-1]}"

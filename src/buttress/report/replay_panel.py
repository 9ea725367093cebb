"""What other remedies would have made of the run, as a chart of the report and as a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from buttress.groups import Groups
from buttress.remedies.replay import Outcome, Recorded
from buttress.report import phrases
from buttress.report.chart import Chart, Series, absent, known
from buttress.report.hostile import safe_text
from buttress.report.replayed import COLUMNS, LEGEND, extra, numbers
from buttress.rules import Case

# What the report of a run shows, the first ones first: the others are left out where time is short.
SHOWN = (
    "grpo", "avspo", "posterior", "dynamic_sampling", "dcpo", "greso", "f_grpo", "ngrpo",
    "difficulty_pools", "filter_drop", "rloo", "reinforce_pp", "spo", "sign",
)  # fmt: skip
SECONDS = 3.0
ROLLOUTS = 300_000

KEY, TITLE = "replay", "The same rollouts under other remedies"


def replay_chart(case: Case, seconds: float = SECONDS, rollouts: int = ROLLOUTS) -> Chart:
    """Return the chart of the remedies in `SHOWN`, within a time; it says what was left out.

    Parameters
    ----------
    seconds
        No further remedy is begun after this time.
    rollouts
        Of a longer run only the last steps are played, up to so many rollouts.
    """
    if case.undefined:
        return absent(KEY, TITLE, "bars", f"Nothing can be replayed: {case.undefined}.")
    start = time.perf_counter()
    groups, part = _last_steps(case.groups, rollouts)
    recorded = Recorded(groups, case.tolerance)
    outcomes: list[Outcome] = []
    for name in SHOWN:
        if outcomes and time.perf_counter() - start > seconds:
            break
        outcomes.append(recorded.outcome(name))
    late = SHOWN[len(outcomes) :]
    left_out = f"Left out to save time: {', '.join(late)}; see `buttress replay`." if late else ""
    return outcome_chart(outcomes, notes=(part, left_out))


def outcome_chart(outcomes: Sequence[Outcome], notes: Sequence[str] = ()) -> Chart:
    """Draw how many rollouts get an advantage under each remedy; the other numbers stand beside."""
    played = [outcome for outcome in outcomes if not outcome.skipped]
    if not played:
        return absent(KEY, TITLE, "bars", "None of the remedies could be replayed.")
    moved = np.array([outcome.effective_batch for outcome in played])
    tied = np.array([outcome.tied_moved for outcome in played])
    estimated = [outcome.name for outcome in played if outcome.how]
    texts = list(zip(*map(numbers, played), strict=True))
    said = (
        LEGEND,
        f"{', '.join(estimated)}: estimates from the recorded groups." if estimated else "",
        *notes,
        *(f"{one.name}: {_sentence(one.skipped)}" for one in outcomes if one.skipped),
    )
    return Chart(
        KEY,
        TITLE,
        "bars",
        tuple(outcome.name for outcome in played),
        (
            Series("in mixed groups", "mixed", known(moved - tied), _shares(moved - tied)),
            Series("in tied groups", "wrong", known(tied), _shares(tied)),
        ),
        x_name="remedy",
        y_name="rollouts with an advantage",
        lead=_lead(played),
        note=" ".join(filter(None, said)),
        share=True,
        ends=tuple(map(_end, played)),
        more=tuple(
            (heading, column) for heading, column in zip(COLUMNS.values(), texts, strict=True)
        ),
    )


def write(outcomes: Sequence[Outcome], case: Case, path: str | Path) -> Path:
    """Write a page of what was replayed and return its path."""
    from buttress.report.headline import read_from
    from buttress.report.html import write_sheet
    from buttress.report.sheet import Section, Sheet

    played = [outcome for outcome in outcomes if not outcome.skipped]
    how = [f"{one.name}: {_sentence(one.how)}" for one in played if one.how]
    lacking = [
        f"{one.name}: played without {safe_text(', '.join(one.missing))}."
        for one in played
        if one.missing
    ]
    chart = outcome_chart(outcomes)
    section = Section("replay", "Rollouts with an advantage", charts=(chart,))
    apart = Section("how", "How it was played", paragraphs=(*how, *lacking))
    sections = (section, apart) if how or lacking else (section,)
    return write_sheet(
        Sheet(read_from(case), "Replay", chart.lead or chart.missing, sections), path
    )


def _last_steps(groups: Groups, rollouts: int) -> tuple[Groups, str]:
    """Return the last steps that hold at most so many rollouts, and what part of the run it is."""
    if groups.n_samples <= rollouts:
        return groups, ""
    steps, place = np.unique(groups.step, return_inverse=True)
    size = np.bincount(place, weights=groups.sizes)
    kept = np.cumsum(size[::-1]) <= rollouts
    first = len(steps) - max(int(kept.sum()), 1)
    part = groups.select(place >= first)
    said = (
        f"Only the last {phrases.count(len(steps) - first, 'step')} of {len(steps):,} "
        f"({part.n_samples:,} of {groups.n_samples:,} rollouts) were played."
    )
    return part, said


def _lead(played: Sequence[Outcome]) -> str:
    first = next((one for one in played if one.name == "grpo"), played[0])
    said = (
        f"{first.name} gives {phrases.percent(first.effective_batch)} of the recorded rollouts an "
        f"advantage (collapse rate {phrases.rate(first.acr_before)})"
    )
    costly = [one for one in played if isfinite(one.rollouts) and one.rollouts > 1]
    if not costly:
        return f"{said}."
    most = max(costly, key=lambda one: one.rollouts)
    more = (
        f"{phrases.percent(most.rollouts - 1)} more"
        if most.rollouts < 2
        else f"{phrases.number(most.rollouts)} times the"
    )
    return f"{said}; {most.name} would have sampled {more} rollouts."


def _end(outcome: Outcome) -> str:
    share = phrases.percent(outcome.effective_batch)
    cost = extra(outcome)
    return share if cost in ("0", phrases.DASH) else f"{share}, {cost} rollouts"


def _shares(values: np.ndarray) -> tuple[str, ...]:
    return tuple(phrases.percent(value) for value in values.tolist())


def _sentence(text: str) -> str:
    return f"{safe_text(text).rstrip('.')}."

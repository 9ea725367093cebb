"""Charts of how groups, prompts, rewards and advantages are distributed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from buttress.measures import KINDS, success_column
from buttress.report import phrases
from buttress.report.chart import Chart, Colour, Series, absent, known
from buttress.report.hostile import safe_name
from buttress.report.over_steps import KIND_COLOURS, KIND_NAMES
from buttress.report.prompt_states import STATES, prompt_states
from buttress.rules import Case, thresholds

EXACT_BINS_UP_TO = 16  # group size up to which every possible success count has a bar of its own
TENTHS = 10
BARS = 24
ADVANTAGE_BINS = 20  # on each side of zero
ADVANTAGE_QUANTILE = 0.995


def success_chart(case: Case) -> Chart:
    """Return how many groups have which success rate, by kind."""
    key, title = "success", "Success rate of the groups"
    groups = case.groups
    success = success_column(groups)
    scored = np.isfinite(success)
    known_of = np.bincount(groups.group_of[scored], minlength=len(groups))
    keep = case.summary.eligible & (known_of > 0)
    if not keep.any():
        return absent(key, title, "histogram", "No group has two rollouts that can be scored.")
    sums = np.bincount(groups.group_of[scored], weights=success[scored], minlength=len(groups))
    place, labels, binning = _success_bins(
        sums.astype(np.float64)[keep], known_of[keep], case.tolerance.atol
    )
    kind = case.kinds[keep]
    sets = [
        ("mixed", "mixed", kind < 0),
        *((KIND_NAMES[name], KIND_COLOURS[name], kind == code) for code, name in enumerate(KINDS)),
    ]
    series = tuple(
        Series(name, colour, known(np.bincount(place[chosen], minlength=len(labels)), 12))  # type: ignore[arg-type]
        for name, colour, chosen in sets
        if chosen.any() or colour != "between"
    )
    ends = [int(np.sum(place == end)) for end in (0, len(labels) - 1)]
    total = int(keep.sum())
    return Chart(
        key,
        title,
        "histogram",
        labels,
        series,
        x_name="successes in the group" if "/" in labels[-1] else "success rate",
        y_name="groups",
        lead=f"{phrases.percent(ends[0], total)} of the groups have no success at all, "
        f"{phrases.percent(ends[1], total)} have nothing but success.",
        note=f"{binning} {_what_success_is(case)}",
    )


def prompts_chart(case: Case) -> Chart:
    """Return how many prompts are never solved, learnt, mastered, over the whole run."""
    key, title = "prompts", "Prompts by state"
    if not case.groups.has_prompts:
        return absent(key, title, "bars", "The log does not say which prompt a group belongs to.")
    table, state, _ = prompt_states(case)
    counts = np.bincount(state, minlength=len(STATES))
    shown = [code for code, one in enumerate(STATES) if counts[code] or one[0] != "not scored"]
    total = len(state)
    stuck = sum(int(counts[code]) for code in shown if STATES[code][2] != "keep")
    return Chart(
        key,
        title,
        "bars",
        tuple(STATES[code][0] for code in shown),
        (
            Series(
                "prompts",
                "mixed",
                known(counts[shown], 12),
                tuple(
                    f"{int(counts[code]):,} ({phrases.percent(counts[code], total)})"
                    for code in shown
                ),
            ),
        ),
        x_name="state",
        y_name="prompts",
        lead=f"{phrases.count(total, 'prompt')}, {int(np.median(table.tries)):,} tries each "
        f"(median); {phrases.percent(stuck, total)} are best held back or dropped for now.",
        note="Never solved: no success in the whole run. Mastered: nothing but success over the "
        "latest eight rollouts. Lost: solved over a stretch of the run, no longer at its end. "
        "Duplicated: the text of a prompt with another id. `buttress prompts` lists them all.",
        colours=tuple(STATES[code][1] for code in shown),
    )


def components_chart(case: Case) -> Chart:
    """Return the collapse rate of the reward, of correctness and of each component."""
    key, title = "components", "Collapse rate of each reward"
    if case.undefined:
        return absent(key, title, "bars", f"The collapse rate is undefined: {case.undefined}.")
    rates = list(case.acr_by_reward.items())
    if len(rates) < 2:
        return absent(key, title, "bars", "The log holds the total reward only, no components.")
    shown = rates[:BARS]
    values = [rate for _, rate in shown]
    more = f"The first {BARS} of {len(rates)} rewards." if len(rates) > BARS else ""
    roles: dict[str, Colour] = {"reward": "ink", "correct": "correct"}
    highest = max(shown, key=lambda one: -1 if np.isnan(one[1]) else one[1])
    return Chart(
        key,
        title,
        "bars",
        tuple(safe_name(name) for name, _ in shown),
        (Series("ACR", "ink", known(values), tuple(map(phrases.rate, values))),),
        x_name="reward",
        y_name="ACR",
        lead=f"Tied most often: {safe_name(highest[0])}, in {phrases.percent(highest[1])} of the "
        "groups.",
        note=f"A component that is tied inside a group teaches nothing about itself there. {more}",
        colours=tuple(roles.get(name, "mixed") for name, _ in shown),
        limit=thresholds.ACR_STALLED,
        share=True,
    )


def advantages_chart(case: Case) -> Chart:
    """Return the logged advantages of rollouts in mixed and in tied groups."""
    key, title = "advantages", "Logged advantages"
    column = case.groups.column("advantage")
    if column is None or not np.isfinite(column).any():
        return absent(key, title, "histogram", "The log holds no advantages.")
    finite = np.isfinite(column)
    values, in_tied = column[finite], case.summary.tied[case.groups.group_of[finite]]
    place, labels, binning = _advantage_bins(values)
    sets: tuple[tuple[str, Colour, NDArray[np.bool_]], ...] = (
        ("in mixed groups", "mixed", ~in_tied),
        ("in tied groups", "wrong", in_tied),
    )
    phantom = int((values[in_tied] != 0).sum())
    tail = f" {phrases.count(phantom, 'rollout')} of tied groups have one that is not 0."
    return Chart(
        key,
        title,
        "histogram",
        labels,
        tuple(
            Series(name, colour, known(np.bincount(place[chosen], minlength=len(labels)), 12))
            for name, colour, chosen in sets
        ),
        x_name="advantage",
        y_name="rollouts",
        lead=f"{phrases.percent((values == 0).sum(), len(values))} of the logged advantages are "
        f"exactly 0; the largest magnitude is {phrases.number(float(np.abs(values).max()))}."
        + (tail if phantom else ""),
        note=binning,
    )


def _success_bins(
    sums: NDArray[np.float64], known_of: NDArray[np.int64], atol: float
) -> tuple[NDArray[np.int64], tuple[str, ...], str]:
    """Return the bin of each group, the labels, and how they were made."""
    size = int(known_of[0])
    whole = np.abs(sums - np.round(sums)) <= atol * known_of
    if size <= EXACT_BINS_UP_TO and (known_of == size).all() and whole.all():
        labels = tuple(f"{n}/{size}" for n in range(size + 1))
        return np.round(sums).astype(np.int64), labels, "One bar for each number of successes."
    rate = sums / known_of
    inner = 1 + np.clip(np.floor(rate * TENTHS), 0, TENTHS - 1).astype(np.int64)
    place = np.select([rate <= atol, rate >= 1 - atol], [0, TENTHS + 1], inner)
    labels = ("0", *(f"{n / TENTHS:.1f}–{(n + 1) / TENTHS:.1f}" for n in range(TENTHS)), "1")
    return place, labels, "The outer bars are exactly 0 and 1, the others tenths."


def _advantage_bins(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.int64], tuple[str, ...], str]:
    """Return bins with exact zero apart; the outermost are open, so that one giant hides none."""
    magnitude = np.abs(values)
    reach = (
        float(np.quantile(magnitude[magnitude > 0], ADVANTAGE_QUANTILE)) if magnitude.any() else 1
    )
    width = reach / ADVANTAGE_BINS
    inner = np.clip(np.floor(magnitude / width), 0, ADVANTAGE_BINS - 1).astype(np.int64)
    place = ADVANTAGE_BINS + np.sign(values).astype(np.int64) * (inner + 1)
    edges = [f"{width * n:.2g}" for n in range(ADVANTAGE_BINS + 1)]
    up = [f"{low} to {high}" for low, high in pairwise(edges)]
    down = [f"−{high} to −{low}" for low, high in pairwise(edges)]
    up[-1], down[-1] = f"{edges[-2]} and more", f"−{edges[-2]} and less"
    labels = (*reversed(down), "0", *up)
    note = "Exact zeros have the middle bar to themselves; the outermost bars are open."
    return place, labels, note


def _what_success_is(case: Case) -> str:
    correct = case.groups.column("correct")
    if correct is not None and np.isfinite(correct).any():
        return "Success is the logged correctness."
    low, high = case.levels
    if low >= 0 and high <= 1:
        return "The log has no correctness: success is the reward."
    return (
        "The log has no correctness: success is the reward between its lowest level "
        f"({phrases.number(min(low, 0.0))}) and its highest ({phrases.number(high)})."
    )

"""Charts over the training steps: the collapse rate by kind, and the mean of each reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.measures import KINDS, reward_names
from buttress.report import phrases
from buttress.report.chart import Chart, Colour, Series, absent, known
from buttress.report.hostile import safe_name
from buttress.rules import Case, thresholds

POINTS = 500  # more than a screen can tell apart
LINES = 12
RUNS = 8
MIN_POINTS_TO_SMOOTH = 20
STALL_NOTE = (
    f"Dashed: {thresholds.ACR_STALLED}; above it for more than {thresholds.STALLED_STEPS} steps a "
    "run stalls (arXiv 2605.21125)."
)
KIND_NAMES = {
    "all_wrong": "all wrong",
    "all_correct": "all correct",
    "tied_between": "all the same, in between",
}
KIND_COLOURS: dict[str, Colour] = {
    "all_wrong": "wrong",
    "all_correct": "correct",
    "tied_between": "between",
}


class Buckets(NamedTuple):
    """Consecutive steps put together, so that a run of any length fits."""

    per: int  # steps per bucket
    place: NDArray[np.int64]  # bucket of each step
    labels: tuple[str, ...]

    @classmethod
    def of(cls, step: NDArray[np.int64], points: int = POINTS) -> Buckets:
        """Divide the steps of a run."""
        per = max(1, -(-len(step) // points))
        place = np.arange(len(step)) // per
        firsts, lasts = step[::per], np.append(step[per - 1 :: per], step[-1:])
        labels = tuple(
            str(first) if first == last else f"{first}–{last}"
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=False)
        )
        return cls(per, place, labels)

    def sum(self, per_step: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add up a count of each step."""
        return np.add.reduceat(per_step, np.arange(0, len(per_step), self.per))

    @property
    def note(self) -> str:
        """What a point stands for; empty where it is one step."""
        if self.per == 1:
            return ""
        return f"Each point adds up {self.per} consecutive steps: its shares are exact over them."


def collapse_chart(case: Case) -> Chart:
    """Return the share of tied groups at each step, by kind, and the mean reward on request."""
    key, title = "acr", "Collapse rate"
    steps = case.steps
    if case.undefined:
        return absent(key, title, "columns", f"The collapse rate is undefined: {case.undefined}.")
    if len(steps.step) < 2:
        return absent(key, title, "columns", "The log holds one step, so there is no course.")
    buckets = Buckets.of(steps.step)
    eligible = buckets.sum(steps.eligible)
    series = []
    for kind in KINDS:
        counts = buckets.sum(getattr(steps, kind))
        if kind == "tied_between" and not counts.any():
            continue
        detail = tuple(
            f"{n} of {of} ({phrases.percent(n, of)})"
            for n, of in zip(counts.tolist(), eligible.tolist(), strict=True)
        )
        series.append(
            Series(KIND_NAMES[kind], KIND_COLOURS[kind], _shares(counts, eligible), detail)
        )
    tied = buckets.sum(steps.eligible - steps.mixed)
    if len(tied) >= MIN_POINTS_TO_SMOOTH:
        series.append(_smooth(tied, eligible, buckets.per))
    means = known(_means(case, "reward", buckets))
    series.append(Series("mean reward", "line", means, line=True, own_axis=True, shown=False))
    bars = buckets.note or "Each bar is one step: the share of its groups that is tied, by kind."
    return Chart(
        key,
        title,
        "columns",
        buckets.labels,
        tuple(series),
        x_name="step",
        y_name="share of groups",
        lead=_course(steps.step, tied, eligible),
        note=f"{bars} {STALL_NOTE}",
        limit=thresholds.ACR_STALLED,
        share=True,
    )


def acr_chart(runs: Sequence[tuple[str, Case]], most: int = RUNS) -> Chart:
    """Return the collapse rate of several runs over their steps."""
    key, title = "acr", "Collapse rate of the runs"
    shown = [(name, case) for name, case in runs if not case.undefined][:most]
    steps = np.unique(np.concatenate([case.steps.step for _, case in shown])) if shown else []
    if len(steps) < 2:
        return absent(key, title, "lines", "No run has two steps with a collapse rate.")
    buckets = Buckets.of(np.asarray(steps))
    series = []
    for name, case in shown:
        at = np.searchsorted(steps, case.steps.step)
        tied, eligible = np.zeros((2, len(steps)), dtype=np.int64)
        tied[at], eligible[at] = case.steps.eligible - case.steps.mixed, case.steps.eligible
        with np.errstate(invalid="ignore"):
            rate = buckets.sum(tied) / buckets.sum(eligible)
        series.append(Series(safe_name(name), "line", known(rate), line=True))
    left = f"The first {most} of {len(runs)} runs. " if len(runs) > len(shown) else ""
    return Chart(
        key,
        title,
        "lines",
        buckets.labels,
        tuple(series),
        x_name="step",
        y_name="ACR",
        note=f"{left}{buckets.note} {STALL_NOTE}".strip(),
        limit=thresholds.ACR_STALLED,
        share=True,
    )


def means_chart(case: Case) -> Chart:
    """Return the mean of the reward and of each component at each step."""
    key, title = "means", "Mean of each reward"
    names = reward_names(case.groups)
    if len(case.steps.step) < 2:
        return absent(key, title, "lines", "The log holds one step, so there is no course.")
    buckets = Buckets.of(case.steps.step)
    series = tuple(
        Series(safe_name(name), "line", known(_means(case, name, buckets)), line=True)
        for name in names[:LINES]
    )
    more = f"The first {LINES} of {len(names)} rewards." if len(names) > LINES else ""
    apart = "Components are shown unweighted, as logged."
    return Chart(
        key,
        title,
        "lines",
        buckets.labels,
        series,
        x_name="step",
        y_name="mean",
        note=" ".join(filter(None, [apart, more, buckets.note])),
    )


def _means(case: Case, name: str, buckets: Buckets) -> NDArray[np.float64]:
    """Return the mean over the scorable samples of each bucket, NaN where there is none."""
    values = case.groups.column(name)
    if values is None:
        return np.full(len(buckets.labels), np.nan)
    step_of_group = np.searchsorted(case.steps.step, case.groups.step)
    scorable = np.isfinite(values)
    place = buckets.place[step_of_group[case.groups.group_of[scorable]]]
    n = len(buckets.labels)
    total = np.bincount(place, weights=values[scorable], minlength=n)
    with np.errstate(invalid="ignore"):
        return total / np.bincount(place, minlength=n)


def _smooth(tied: NDArray[np.int64], eligible: NDArray[np.int64], per: int) -> Series:
    """Return the ACR over a centred window: tied over eligible groups of all its steps."""
    width = max(5, len(tied) // 12) | 1
    window = np.ones(width)
    near = [np.convolve(counts, window)[width // 2 :][: len(tied)] for counts in (tied, eligible)]
    with np.errstate(invalid="ignore"):
        values = near[0] / near[1]
    detail = tuple(map(phrases.rate, values.tolist()))
    return Series(f"ACR over {width * per} steps", "ink", known(values), detail, line=True)


def _course(step: NDArray[np.int64], tied: NDArray[np.int64], eligible: NDArray[np.int64]) -> str:
    """Say how the rate began and how it ended, over the first and last fifth of the run."""
    fifth = max(1, len(tied) // 5)
    with np.errstate(invalid="ignore"):
        first = phrases.rate(tied[:fifth].sum() / eligible[:fifth].sum())
        last = phrases.rate(tied[-fifth:].sum() / eligible[-fifth:].sum())
    if fifth == 1:
        return f"The collapse rate is {first} at the first step and {last} at the last."
    return (
        f"The collapse rate is {first} over the first fifth of the {len(step):,} steps and {last} "
        "over the last."
    )


def _shares(counts: NDArray[np.int64], eligible: NDArray[np.int64]) -> tuple[float | None, ...]:
    with np.errstate(invalid="ignore"):
        return known(counts / eligible)

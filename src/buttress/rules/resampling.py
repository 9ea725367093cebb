"""Whether dynamic sampling can fill its updates within the batches that it is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Scalar
from buttress.measures.resampling import Batches, batches_needed, stall_chance
from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule

# Generation batches per update, as trainers log them (DAPO recipe of verl, NeMo-RL), and settings.
_BATCHES = ("num_gen_batches", "dynamic_sampling_num_gen_batches", "train/num_gen_batches")
_NEEDED = ("live_groups", "train_batch_size", "num_prompts_per_step")
_BATCH = ("generation_batch", "gen_batch_size")
_LIMIT = (
    "max_generation_batches",
    "max_num_gen_batches",
    "dynamic_sampling_max_gen_batches",
    "max_sample_batches",
)

LARGER_BATCHES = Advice(
    "generate more prompts at a time, or allow more batches",
    "the limit is one on their product",
    "rollouts in proportion; no limit at all hides a run that no longer learns",
)
CUT_PROMPTS = Advice(
    "leave prompts that never mix out of the sampling (GRESO, difficulty pools; `buttress prompts` "
    "lists them)",
    "each of them takes the place of one that could fill the update",
    "none; look at them again now and then",
)


class Sampling(NamedTuple):
    """The settings of dynamic sampling; None where unknown."""

    needed: int | None
    batch: int | None
    limit: int | None


@rule("resampling-stall", "BT105")
def resampling_stall(this: Rule, case: Case) -> Iterator[Finding]:
    """Dynamic sampling will need more generation batches than it is allowed.

    What it sees
        The share of mixed groups over the latest rollouts against the settings of dynamic sampling:
        the groups that an update waits for, the prompts of a generation batch, the largest number
        of batches. They come from a configuration beside the log (verl's train_batch_size,
        gen_batch_size and max_num_gen_batches; NeMo-RL's and SkyRL's names), or from metrics of
        these names. Where the log is filtered or holds no rollouts: the trainer's own counter of
        batches (num_gen_batches), its level and its growth. An error when one of the next ten
        updates almost surely (95 %) finds too few, a warning when it more likely does than not, an
        info from 5 % on.
    Why it matters
        The trainer stops with an error when the limit is reached, or trains on a short batch.
    How sure
        The number of batches has the interval of the share behind it. The chance of a stall is
        binomial, with the uncertainty of the share in it. Both take the next batches to be like
        the latest ones. A growing counter is carried on along its exponential trend.
    What to do
        Larger generation batches or a higher limit buy time. Prompts that can mix cure it.
    When to ignore
        Where the trainer falls back to what it has.
    References
        Dynamic sampling of DAPO, arXiv 2503.14476; the error is verl issue 953.
    """
    sampling = _settings(case)
    if sampling.limit is None or sampling.limit < 1:
        return
    rates = _live(case)
    if rates and sampling.needed and sampling.batch:
        yield from _from_groups(this, case, sampling, *rates)
        return
    counter = next(filter(None, map(case.run.scalar, _BATCHES)), None)
    if counter is not None:
        yield from _from_counter(this, sampling.limit, counter)


def _settings(case: Case) -> Sampling:
    facts = case.run.facts

    def setting(known: int | None, names: tuple[str, ...]) -> int | None:
        logged = next(filter(None, map(case.run.scalar, names)), None)
        return int(logged.value[-1]) if known is None and logged is not None else known

    needed = setting(facts.live_groups, _NEEDED)
    batch = setting(facts.generation_batch, _BATCH)
    return Sampling(needed, batch or needed, setting(facts.max_generation_batches, _LIMIT))


def _live(case: Case) -> tuple[int, int, tuple[int, int]] | None:
    """Return mixed and eligible groups of the latest steps, and these steps; None if unknown."""
    if case.undefined:
        return None
    table = case.steps
    backwards = np.cumsum(table.eligible[::-1])
    enough = int(np.searchsorted(backwards, at.RECENT_GROUPS)) + 1
    recent = slice(-min(max(enough, at.RECENT_STEPS), len(table.step)), None)
    seen = int(table.eligible[recent].sum())
    steps = (int(table.step[recent][0]), int(table.step[-1]))
    return int(table.mixed[recent].sum()), seen, steps


def _from_groups(
    this: Rule, case: Case, sampling: Sampling, live: int, seen: int, steps: tuple[int, int]
) -> Iterator[Finding]:
    needed, batch, limit = sampling
    assert needed is not None
    assert batch is not None
    assert limit is not None
    expected = batches_needed(live, seen, needed, batch)
    once = stall_chance(live, seen, needed, batch, limit)
    soon = stall_chance(live, seen, needed, batch, limit, updates=at.STALL_UPDATES)
    severity = _severity(soon)
    if severity is None:
        return
    yield this.finding(
        severity,
        f"an update needs {needed} groups with a signal and {live} of the latest {seen} have one: "
        f"{_said(expected)} generation batches of {batch} prompts against a limit of {limit}; "
        f"one of the next {at.STALL_UPDATES} updates stalls with a chance of {soon:.0%}",
        {
            "batches": expected.value,
            "batches_interval": [expected.low, expected.high],
            "limit": limit,
            "live": live,
            "seen": seen,
            "needed": needed,
            "generation_batch": batch,
            "stall_chance": once,
            "stall_chance_soon": soon,
        },
        [CUT_PROMPTS, LARGER_BATCHES, *advice.against_collapse(case)[:1]],
        steps,
    )


def _severity(chance: float) -> Severity | None:
    lines = ((at.STALL_SURE, Severity.ERROR), (at.STALL_LIKELY, Severity.WARNING))
    for line, severity in lines:
        if chance >= line:
            return severity
    return Severity.INFO if chance >= at.STALL_POSSIBLE else None


def _said(expected: Batches) -> str:
    if not isfinite(expected.value):
        return f"without end ({expected.low:g} or more, 95 %)"
    high = f"{expected.high:g}" if isfinite(expected.high) else "no end"
    return f"about {expected.value:g} (95 %: {expected.low:g} to {high})"


def _from_counter(this: Rule, limit: int, counter: Scalar) -> Iterator[Finding]:
    recent = slice(-at.COUNTER_LINES, None)
    step, batches = counter.step[recent].astype(np.float64), counter.value[recent]
    latest = float(np.mean(batches[-at.RECENT_STEPS :]))
    reached = int((batches >= limit).sum())
    ahead = steps_to_reach(step, batches, limit)
    soon = ahead is not None and ahead[0] <= at.STALLED_STEPS
    if not reached and not soon:
        return
    first = f"{latest:.1f} generation batches per update against a limit of {limit}"
    growth = (
        f"; at its growth the limit is reached in about {ahead[0]:.0f} steps (95 %: {ahead[1]:.0f} "
        f"to {'no end' if not isfinite(ahead[2]) else f'{ahead[2]:.0f}'})"
        if ahead
        else ""
    )
    at_limit = f"; {reached} of the last {len(batches)} took all of them" if reached else ""
    yield this.finding(
        Severity.ERROR if reached >= at.COUNTER_REACHED * len(batches) else Severity.WARNING,
        f"{first}{at_limit}{growth}",
        {
            "batches": latest,
            "limit": limit,
            "updates_at_limit": reached,
            "steps_to_limit": ahead[0] if ahead else None,
            "steps_to_limit_interval": [*ahead[1:]] if ahead else None,
        },
        [CUT_PROMPTS, LARGER_BATCHES],
        (int(step[0]), int(step[-1])),
    )


def steps_to_reach(
    step: NDArray[np.float64], batches: NDArray[np.float64], limit: float
) -> tuple[float, float, float] | None:
    """Return in how many steps an exponential trend reaches the limit, with a 95 % interval.

    None where there are fewer than ten lines, or where no growth is sure. The upper bound is
    infinite where the slowest growth within the interval is none.
    """
    from scipy.stats import linregress  # slow to import
    from scipy.stats import t as student

    if len(step) < at.COUNTER_LEAST or np.ptp(step) == 0 or (batches <= 0).any():
        return None
    line = linregress(step, np.log(batches))
    # a slope of neighbouring steps is less sure than the regression believes
    error = float(line.stderr) * _inflation(np.log(batches) - line.intercept - line.slope * step)
    half = float(student.ppf(0.975, len(step) - 2)) * error
    if not line.slope - half > 0:
        return None
    level = line.intercept + line.slope * step[-1]
    rest = max(0.0, np.log(limit) - level)
    bounds = [rest / slope for slope in (line.slope, line.slope + half, line.slope - half)]
    return ceil(bounds[0]), ceil(bounds[1]), ceil(bounds[2])


def _inflation(rest: NDArray[np.float64]) -> float:
    """Return by how much serial correlation widens a standard error (first order)."""
    spread = float((rest * rest).sum())
    alike = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    alike = min(max(alike, 0.0), 0.9)
    return float(np.sqrt((1 + alike) / (1 - alike)))

"""What the first steps of a run foretell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.measures import Difficulty, StepTable
from buttress.measures.forecast import carry_on, steps_to_stall
from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Finding, Severity
from buttress.rules.prompt_counts import Counts
from buttress.rules.rule import Rule, rule

MODEL = (
    "a line through the log odds of the ACR over the first {} steps, carried on for {}; success "
    "rates of prompts: some 0, some 1, the others Beta"
)
BACKGROUND = (
    "arXiv 2605.21125 reports final MATH-500 = 51.4 - 29.6 ACR_100 over its own models and data: "
    "background, not portable to this run"
)


class Quantity(NamedTuple):
    """A foretold number with its 95 % interval; None where it is unknown or has no end."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, draws: NDArray[np.float64]) -> Quantity:
        """Return median and central interval; what lies beyond the horizon is None."""
        low, value, high = np.quantile(draws, [0.025, 0.5, 0.975], method="nearest")
        return cls(*(float(one) if np.isfinite(one) else None for one in (value, low, high)))

    def entries(self, name: str) -> dict[str, object]:
        """Return the number and its interval as evidence."""
        return {name: self.value, f"{name}_interval": [self.low, self.high]}


@rule("early-forecast", "BT106")
def early_forecast(this: Rule, case: Case) -> Iterator[Finding]:
    """What the first steps foretell: rollouts that will be wasted, a stall, dead prompts.

    What it sees
        The first 100 steps, or what there is of them (at least ten steps and 64 groups). The ACR
        over these steps is carried on for as many steps again, and the success counts of the
        prompts say which share of them will never mix. It speaks when a stall (ACR above 0.35 for
        more than 50 consecutive steps) is more likely than not and the ACR ahead is surely above
        0.35, or when more than 35 % of the prompts will surely never mix. A warning while a stall
        is still ahead, an info where it has come or where the log goes on and shows what came of
        it. Silent where the run masters its prompts or fell, on a filtered log and without
        rollouts.
    Why it matters
        The cheapest time to stop or to change a run is its beginning.
    How sure
        Every number has a 95 % interval and comes from this run's own counts. The model is a line
        through the log odds, widened by the scatter of the steps: it knows nothing of a schedule, a
        curriculum or a change of the data. A success rate too small to show in the rollouts at hand
        counts as never. The paper's line, final MATH-500 = 51.4 - 29.6 ACR_100, belongs to its
        models and data: it is not portable, and nothing here is computed from it. Given several
        runs of which at least five are finished, a line through those is learnt for the others,
        with a prediction interval.
    What to do
        What helps against the kind of tied group that the first steps show.
    When to ignore
        While a warm-up or a curriculum is under way.
    References
        arXiv 2605.21125, section 3 and corollary 3.3 (the line at 0.35). The model is our own.
    """
    if case.undefined or case.course.mastered or case.course.fallen:
        return
    first = first_steps(case.steps)
    table = case.steps.select(np.arange(first))
    if first < at.EARLY_LEAST or table.eligible.sum() < at.SMOOTH_GROUPS:
        return
    trend = carry_on(table.eligible - table.mixed, table.eligible, ahead=_ahead(first))
    if trend is None:
        return
    stall = steps_to_stall(trend, at.ACR_STALLED, at.STALLED_STEPS)
    chance = float(np.isfinite(stall).mean())
    rate = trend.ahead[:, :first].mean(axis=1)
    acr = Quantity.of(rate)
    likely = chance >= at.STALL_LIKELY and (acr.low or 0.0) > at.ACR_STALLED
    never = _never(case, table)
    dead = never.low is not None and never.low > at.ACR_STALLED
    if not likely and not dead:
        return
    over = len(case.steps.step) > first
    wasted = Quantity.of(rate * _rollouts(case, table) * first)
    ahead = likely and not case.course.stalled and not over
    yield this.finding(
        Severity.WARNING if ahead else Severity.INFO,
        _message(first, acr, wasted, never, *((chance, stall) if likely else (None, stall))),
        {
            "first_steps": first,
            "acr_first": float((table.eligible - table.mixed).sum() / table.eligible.sum()),
            **acr.entries("acr_ahead"),
            **wasted.entries("wasted_ahead"),
            "stall_chance": chance,
            **Quantity.of(stall).entries("steps_to_stall"),
            **never.entries("never_mix"),
            "acr_came": _came(case, first) if over else None,
            **_own_line(case),
            "model": MODEL.format(first, first),
            "background": BACKGROUND,
        },
        advice.against_collapse(case)[:2],
        (int(table.step[0]), int(table.step[-1])),
    )


def first_steps(table: StepTable) -> int:
    """Return how many of the logged steps are first ones."""
    if not len(table.step):
        return 0
    return int(np.searchsorted(table.step, table.step[0] + at.EARLY_STEPS))


def early_acr(table: StepTable) -> float:
    """Return the ACR over the first steps; NaN without eligible groups."""
    first = slice(first_steps(table))
    eligible = table.eligible[first].sum()
    return float(1 - table.mixed[first].sum() / eligible) if eligible else float(np.nan)


def _ahead(first: int) -> int:
    """Return how far to look: as far as was seen; twice as far where that shows a stall begun."""
    return max(first, min(at.STALLED_STEPS + 1, 2 * first))


def _never(case: Case, table: StepTable) -> Quantity:
    """Return the share of the prompts that will never mix, over the first steps."""
    counts = case.success_counts
    if counts is None:
        return Quantity(None, None, None)
    # where fewer groups are tied, no more prompts can be dead
    if table.mixed.sum() > (1 - at.ACR_STALLED) * table.eligible.sum():
        return Quantity(None, None, None)
    inside = case.groups.step <= table.step[-1]
    tries, wins = counts.tries[inside], counts.wins[inside]
    if case.groups.has_prompts:
        prompt = case.groups.prompt[inside]
        known, n = prompt >= 0, len(case.groups.prompt_labels)
        tries, wins = (
            np.bincount(prompt[known], weights=one[known], minlength=n) for one in (tries, wins)
        )
    found = Difficulty.of(*Counts(tries.astype(np.int64), wins))
    return Quantity(None, None, None) if found is None else Quantity.of(found.floor)


def _rollouts(case: Case, table: StepTable) -> float:
    """Return the rollouts of a step."""
    inside = case.groups.step <= table.step[-1]
    return float(case.groups.sizes[inside].sum()) / len(table.step)


def _came(case: Case, first: int) -> float | None:
    """Return the ACR of the steps that were foretold, where the log has them."""
    after = case.steps.select(np.arange(first, min(2 * first, len(case.steps.step))))
    eligible = after.eligible.sum()
    return float(1 - after.mixed.sum() / eligible) if eligible else None


def _own_line(case: Case) -> dict[str, object]:
    if case.line is None:
        return {}
    value, low, high = case.line.predict(early_acr(case.steps))
    return {
        "own_line_final": value,
        "own_line_final_interval": [low, high],
        "own_line_runs": case.line.runs,
    }


def _message(
    first: int,
    acr: Quantity,
    wasted: Quantity,
    never: Quantity,
    chance: float | None,
    stall: NDArray[np.float64],
) -> str:
    said = [
        f"the first {first} steps foretell an ACR of {acr.value:.0%} (95 %: {acr.low:.0%} to "
        f"{acr.high:.0%}) over the next {first}: {wasted.value:,.0f} rollouts ({wasted.low:,.0f} "
        f"to {wasted.high:,.0f}) without a gradient"
    ]
    if chance is not None:
        soon = Quantity.of(stall)
        when = "the run has stalled" if soon.value == 0 else f"a stall in {soon.value:.0f} steps"
        low, high = (f"{one:.0f}" if one is not None else "beyond" for one in soon[1:])
        bounds = "" if soon.value == 0 else f" ({low} to {high})"
        said.append(f"{when}{bounds}, with a chance of {chance:.0%}")
    if never.value is not None and never.value > at.FLOOR_LEVEL / 2:
        said.append(
            f"{never.value:.0%} of the prompts ({never.low:.0%} to {never.high:.0%}) will never mix"
        )
    return "; ".join(said)

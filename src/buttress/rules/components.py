"""Reward components that hide what happens to correctness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from buttress.measures import Levels
from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.causes import cause, collapse_severity
from buttress.rules.correctness import Correctness, format_like, is_component, task_like
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule

FILTER_ON_CORRECTNESS = Advice(
    "filter groups on correctness, not on the total (verl: algorithm.filter_groups.metric=acc)",
    "a filter on the total keeps groups that only shaping moves",
    "the rollouts of the groups that are dropped",
)
SHAPE_LESS = Advice(
    "pay shaping only where it separates right from right (for example length among right answers)",
    "a group normalisation blows up any shaping to full size once correctness is tied",
    "shaping no longer acts on prompts that are not solved",
)


@rule(
    "component-collapse",
    "BT201",
    explains=("phantom-signal", "advantage-collapse", "all-wrong-collapse"),
)
def component_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """Correctness is tied in nearly all groups while the total reward varies.

    What it sees
        The ACR of correctness (`correct`, or the component whose name says so) at 0.8 or more, with
        the ACR of the total at least 0.2 below it. An error when 80 % of the groups are all wrong,
        an info when most of the tied ones are all correct or when the rest looks like partial
        credit for the task, else a warning.
        Without rollouts, a rewards/<name>/std of zero beside a total that varies.
    Why it matters
        The collapse rate of the total looks fine, and the model learns format or length only.
    How sure
        Sure with a `correct` column. Else correctness is the component whose name suggests it;
        where no name does, the finding is a warning at most.
    What to do
        Make correctness vary before anything else: check the verifier, bring prompts into reach.
    When to ignore
        When the other component is the task, and the one named here is not.
    References
        GDPO, arXiv 2601.05242, on rewards of several components in one group normalisation.
    """
    if not len(case.groups):
        yield from _from_scalars(this, case)
        return
    if not case.grouped:
        return
    if case.correctness is None:
        yield from _unnamed(this, case)
        return
    one, shaping = case.correctness, case.shaping
    dead, total = case.acr_by_reward[one.column], case.acr_by_reward["reward"]
    if dead < at.COMPONENT_DEAD or not total <= dead - at.COMPONENT_GAP:
        return
    wrong = _share(one.wrong, one.tied)
    yield this.finding(
        _component_severity(case, one),
        f"{one.column} is tied in {dead:.0%} of the groups ({wrong:.0%} of those all wrong), the "
        f"total reward in {total:.0%}: {_source(case)}",
        {
            "component": one.column,
            "acr_of_component": dead,
            "acr_of_reward": total,
            "all_wrong": int(one.wrong.sum()),
            "all_correct": int(one.right.sum()),
            "varying": list(shaping.movers),
            "partial_credit": shaping.partial_credit,
        },
        _revive(case),
        case.span(one.tied),
    )


@rule(
    "format-saturated",
    "BT202",
    explains=("advantage-collapse", "all-wrong-collapse", "component-collapse"),
)
def format_saturated(this: Rule, case: Case) -> Iterator[Finding]:
    """A constant component lifts the reward while correctness stays dead.

    What it sees
        Groups tied at one level above zero in which nothing was solved, for at least half of the
        tied groups of a collapsed run in which 80 % of the groups are unsolved: by `correct`, by
        a component whose name says correctness, or by a component that is zero throughout beside
        one that is constant.
    Why it matters
        The mean reward is above zero and flat, which reads like prompts that are too easy. They
        are out of reach: the level is that of the format.
    How sure
        Sure with a `correct` column; by names of components otherwise.
    What to do
        As for groups that are all wrong; the format reward can go.
    When to ignore
        When the component named dead is a penalty that nobody earned.
    References
        Our own rule, from public reports of runs stuck at the format reward.
    """
    shaping, severity = case.shaping, collapse_severity(case) if case.grouped else None
    lifted, tied = int(shaping.lifted.sum()), int(case.summary.tied.sum())
    if severity is None or not lifted or lifted < at.EXPLAINS * tied:
        return
    level = float(np.median(case.summary.low[shaping.lifted]))
    by = f" ({', '.join(shaping.lifted_by)})" if shaping.lifted_by else ""
    yield this.finding(
        severity,
        f"{lifted} of {tied} tied groups stand at {level:g}{by} although {shaping.dead} is at "
        "the bottom in them: the format is learnt, the task is not",
        {
            "groups": lifted,
            "share_of_tied": lifted / tied,
            "reward_level": level,
            "constant": list(shaping.lifted_by),
            "dead": shaping.dead,
        },
        _revive(case) + ([advice.FREEZE_FORMAT] if cause(case) == "format" else []),
        case.span(shaping.lifted),
    )


@rule("phantom-signal", "BT203")
def phantom_signal(this: Rule, case: Case) -> Iterator[Finding]:
    """Groups are tied on correctness, yet shaping gives them advantages.

    What it sees
        Groups whose rollouts are all right or all wrong while their rewards differ. A warning when
        more than 35 % of the groups are such and unsolved, an error from 80 % on; an info from 10 %
        on, for solved groups, and where the rest looks like partial credit.
    Why it matters
        Group normalisation makes any difference full size: where nothing is right, the model is
        taught to be short, or well-formed, or whatever else the reward counts.
    How sure
        Sure with a `correct` column. Partial credit is told from shaping by the names of the
        components, or by solved rollouts all earning the same (our reading).
    What to do
        Filter groups on correctness, and let shaping act among right answers only.
    When to ignore
        When the task is what the other components grade.
    References
        GDPO, arXiv 2601.05242; DAPO, arXiv 2503.14476, whose filter counts correct answers.
    """
    one, shaping = case.correctness, case.shaping
    if one is None or not case.grouped:
        return
    judged = int((one.eligible & case.summary.eligible).sum())
    moved = int(shaping.moved.sum())
    if not judged or moved < at.PHANTOM_SHARE * judged:
        return
    unsolved = shaping.moved & ~one.right
    lost = int(unsolved.sum()) / judged
    apart = (case.summary.high - case.summary.low)[shaping.moved]
    severity = Severity.INFO
    if lost > at.ACR_STALLED and not shaping.partial_credit:
        severity = Severity.ERROR if lost >= at.ACR_DEAD else Severity.WARNING
    yield this.finding(
        severity,
        f"{moved} of {judged} groups are tied on {one.column} but not on the reward (mean range "
        f"{apart.mean():.3g}): {_source(case)}",
        {
            "groups": moved,
            "share": moved / judged,
            "unsolved": int(unsolved.sum()),
            "mean_range": float(apart.mean()),
            "largest_range": float(apart.max()),
            "by": one.column,
            "varying": list(shaping.movers),
            "partial_credit": shaping.partial_credit,
        },
        [FILTER_ON_CORRECTNESS, SHAPE_LESS],
        case.span(shaping.moved),
    )


def _component_severity(case: Case, one: Correctness) -> Severity:
    if case.shaping.partial_credit:
        return Severity.INFO
    if _share(one.wrong, one.eligible) >= at.COMPONENT_DEAD:
        return Severity.ERROR
    return Severity.INFO if _share(one.right, one.tied) >= at.DOMINANT_KIND else Severity.WARNING


def _source(case: Case) -> str:
    if case.shaping.partial_credit:
        return "the advantages come from what looks like partial credit"
    movers = ", ".join(case.shaping.movers)
    return f"the advantages come from {movers or 'shaping'} alone"


def _revive(case: Case) -> list[Advice]:
    """Return how to make correctness vary; the length cap comes first where it is the reason."""
    dead = case.correctness.tied if case.correctness else case.summary.tied
    cap = case.length_cap
    if cap and case.groups.n_samples and cap.share >= at.TRUNCATED_GROUP and dead.any():
        return list(advice.AGAINST_TRUNCATION)
    return [advice.CHECK_VERIFIER, advice.REVIVE_CORRECTNESS]


def _unnamed(this: Rule, case: Case) -> Iterator[Finding]:
    """Warn where every component that is no format is dead and a format alone is alive."""
    parts = {name: one for name, one in case.components.items() if is_component(name)}
    tasks = {name: one for name, one in parts.items() if not format_like(name)}
    total = case.acr_by_reward["reward"]
    if not tasks or len(tasks) == len(parts) or not total <= 1 - at.COMPONENT_GAP:
        return
    for name, one in tasks.items():
        levels = Levels.of(one)
        flat = levels.high <= one.tolerance.atol or levels.low == levels.high != 1
        if case.acr_by_reward[name] < at.CONSTANT or not flat:
            return
    names = ", ".join(sorted(tasks))
    yield this.finding(
        Severity.WARNING,
        f"{names}: no difference in any group, while a format-like component moves the reward",
        {
            "component": sorted(tasks)[0],
            "acr_of_component": case.acr_by_reward[sorted(tasks)[0]],
            "acr_of_reward": total,
            "varying": sorted(set(parts) - set(tasks)),
        },
        [advice.CHECK_VERIFIER, advice.REVIVE_CORRECTNESS],
        case.span(),
    )


def _from_scalars(this: Rule, case: Case) -> Iterator[Finding]:
    total = case.run.scalar("reward_std")
    for name in sorted(case.run.scalars):
        if not (name.startswith("rewards/") and name.endswith("/std")):
            continue
        part = name.removeprefix("rewards/").removesuffix("/std")
        spread, mean = case.run.scalar(name), case.run.scalar(f"rewards/{part}/mean")
        if not task_like(part) or spread is None or mean is None or total is None:
            continue
        still = spread.value <= at.GRAD_ZERO
        if len(still) < at.OPTIMISER_STEPS or still.mean() < at.OPTIMISER_SHARE:
            continue
        if mean.value.max() > at.GRAD_ZERO or not np.median(total.value) > at.GRAD_ZERO:
            continue
        evidence: dict[str, Any] = {"component": f"reward/{part}", "lines": len(still)}
        yield this.finding(
            Severity.ERROR,
            f"{name} is zero in {still.mean():.0%} of the log lines and the mean never above zero, "
            "while reward_std is not zero: the advantages come from the other components",
            {**evidence, "mean": float(mean.value.mean()), "reward_std": float(total.value.mean())},
            [advice.CHECK_VERIFIER, advice.REVIVE_CORRECTNESS],
            (int(spread.step[0]), int(spread.step[-1])),
        )


def _share(mask: np.ndarray, of: np.ndarray) -> float:
    total = int(of.sum())
    return float((mask & of).sum()) / total if total else 0.0

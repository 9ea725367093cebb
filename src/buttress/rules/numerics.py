"""Advantages that the rewards cannot have given: floating point, tiny ranges, broken formulas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from buttress.rules import thresholds as at
from buttress.rules.bounds import read_bounds, z_bound
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.logged import LoggedAdvantages
from buttress.rules.rule import Rule, rule
from buttress.rules.ties import Ties, read_ties

MASK_TIES = Advice(
    "set the advantages of tied groups to exactly zero: test max - min of the rewards in float64, "
    "not a float32 deviation",
    "the float32 mean of eight times 0.7 is not 0.7, and a small eps makes much of the difference",
    "none",
)
LARGER_EPS = Advice(
    "or raise eps to 1e-4",
    "it shrinks the noise by a hundred against 1e-6",
    "advantages of groups with a small spread shrink a little",
)
CHECK_ROWS = Advice(
    "check which rows the trainer normalises together, and whether it adds anything to the reward "
    "after logging it (a KL penalty, a length penalty)",
    "equal rewards in one group cannot get different advantages",
    "reading the trainer's advantage code",
)
RESOLVE = Advice(
    "treat rewards within the resolution as equal, or do not divide by the deviation (`dr_grpo`)",
    "a deviation near zero turns noise of the reward into a full-size push",
    "groups with credible small gaps teach less",
)
ROUND_REWARDS = Advice(
    "round the reward to what the verifier can tell apart",
    "differences below that are noise",
    "none",
)
FIX_FORMULA = Advice(
    "take the deviation over the whole group; never over the other samples only",
    "a leave-one-out deviation is zero when the others tie, and the division by eps follows",
    "none",
)
CLIP = Advice(
    "until then clip advantages at the bound", "one such rollout outweighs the batch", "none"
)


@rule("phantom-advantage", "BT301")
def phantom_advantage(this: Rule, case: Case) -> Iterator[Finding]:
    """Groups with equal rewards have logged advantages that are not zero.

    What it sees
        Logged advantages above 1e-5 in tied groups. A warning from 0.05 on, an error from 1 on. An
        info where they come from an estimator that acts on tied groups by design.
    Why it matters
        Rounding decides the sign. With eps 1e-6 the push is a twentieth of a full one, with 1e-9 it
        is sixty times as large, in groups that should say nothing.
    How sure
        Rounding cannot produce them where the mean of equal float32 rewards is exact (0, 1, -1,
        0.5): advantages there are meant, if they have one sign in a group and fit its kind or are
        one and the same shift in all tied groups of a step (whitening over the batch), or else
        come from other rewards or other rows. Where the mean is not exact (0.1, 0.7) both are
        possible; then a sign that follows the kind of group counts as meant.
    What to do
        Mask tied groups by the range of their rewards.
    When to ignore
        Below 0.01: they steer nothing. And when the estimator is meant to act on tied groups.
    References
        TRL pull request 6365; the measurements are our own. Estimators that act on tied groups:
        arXiv 2605.21125, 2509.02333, 2509.18851, 2509.21880.
    """
    ties = _ties(case)
    if ties is None:
        return
    largest = float(ties.size[ties.phantom].max())
    evidence = {
        "groups": int(ties.phantom.sum()),
        "tied_groups": case.collapse.tied,
        "largest": largest,
        "median": float(np.median(ties.size[ties.phantom])),
        "rounding_possible": int((ties.phantom & ties.rounds).sum()),
    }
    span = case.span(ties.phantom)
    if ties.by_design:
        yield this.finding(
            Severity.INFO,
            f"the logged advantages come from an estimator that acts on tied groups: "
            f"{evidence['groups']} of {evidence['tied_groups']} have one, up to {largest:.3g}",
            evidence,
            (),
            span,
        )
    elif ties.foreign:
        yield this.finding(
            Severity.WARNING,
            f"advantages differ or point the wrong way within {evidence['groups']} groups of equal "
            f"rewards (up to {largest:.3g}): they come from other rewards or other rows",
            evidence,
            [CHECK_ROWS],
            span,
        )
    else:
        yield this.finding(
            _phantom_severity(largest),
            f"{evidence['groups']} of {evidence['tied_groups']} tied groups have logged advantages "
            f"up to {largest:.3g}: rounding in the trainer's mean, not a signal",
            evidence,
            [MASK_TIES, LARGER_EPS],
            span,
        )


@rule("near-tie-blow-up", "BT302")
def near_tie_blow_up(this: Rule, case: Case) -> Iterator[Finding]:
    """A tiny range of rewards is blown up to full-size advantages.

    What it sees
        Groups whose range is at most 0.01 of the run's reward scale and whose logged advantages
        span at least half of what they span elsewhere. A warning from 5 % of the groups on. Where
        no advantage is logged, an info: division by the group's deviation would do it; a warning
        when at least half of the groups are like that.
    Why it matters
        Such gaps are mostly noise of the reward; normalised, they push as hard as right against
        wrong.
    How sure
        The resolution is a setting. Small gaps can be credible: partial credit in fine steps.
    What to do
        Bin rewards at their resolution or bound the scale.
    When to ignore
        When the reward really tells such differences apart.
    References
        arXiv 2609.19164 (advantage scale calibration).
    """
    near = case.near_tied
    share = float(near.sum()) / max(case.collapse.eligible, 1)
    if not case.grouped or share < at.NEAR_TIED_SHARE:
        return
    apart = case.summary.high - case.summary.low
    evidence = {
        "groups": int(near.sum()),
        "share": share,
        "median_range": float(np.median(apart[near])),
        "resolution": case.tolerance.resolution,
        "scale": case.levels.scale(case.tolerance),
    }
    logged = case.logged
    if logged is None:
        yield this.finding(
            Severity.WARNING if share >= at.MOSTLY_NEAR_TIED else Severity.INFO,
            f"{near.sum()} of {case.collapse.eligible} groups differ by "
            f"{evidence['median_range']:.2g} only: an estimator that divides by the group's "
            "deviation makes that full-size advantages",
            evidence,
            [RESOLVE, ROUND_REWARDS],
            case.span(near),
        )
        return
    blown = near & _blown_up(case, logged, apart)
    if blown.sum() < at.NEAR_TIED_SHARE * case.collapse.eligible:
        return
    span = (logged.high - logged.low)[blown]
    yield this.finding(
        Severity.WARNING,
        f"{blown.sum()} groups whose rewards differ by {np.median(apart[blown]):.2g} only have "
        f"advantages that span {np.median(span):.3g}",
        {**evidence, "blown_up": int(blown.sum()), "median_advantage_span": float(np.median(span))},
        [RESOLVE, ROUND_REWARDS],
        case.span(blown),
    )


@rule("impossible-advantage", "BT303")
def impossible_advantage(this: Rule, case: Case) -> Iterator[Finding]:
    """A logged advantage lies beyond what the group can give.

    What it sees
        Among G values the largest z-score is (G-1)/sqrt(G) with ddof 1 and sqrt(G-1) with ddof 0.
        Groups are held to that bound where the log shows unit deviations. Elsewhere the bound is
        that of centred rewards or of a z-score over the step, whichever is larger, times ten. An
        error from ten times the bound on, else a warning.
    Why it matters
        One such rollout outweighs the batch and, with gradient clipping, mutes everything else.
    How sure
        Sure where groups are normalised. The wide bound misses moderate faults on purpose:
        unnormalised advantages scale with the reward, batch-normalised ones with the batch.
    What to do
        Look at the divisor. A leave-one-out deviation is zero when the other samples tie.
    When to ignore
        When advantages were scaled on purpose after normalisation.
    References
        The bound is that of a standardised value (Samuelson's inequality); NeMo-RL issue 4161
        reports a run with advantages of 7428.
    """
    logged = case.logged
    if logged is None or not case.grouped:
        return
    judged = case.summary.mixed & (logged.count >= 2)
    if not judged.any():
        return
    clear = judged & ~case.near_tied
    bound = read_bounds(case.groups.step, case.summary, logged, clear if clear.any() else judged)
    beyond = judged & (logged.size > bound.limit)
    if not beyond.any():
        return
    worst = int(np.argmax(np.where(beyond, logged.size / bound.limit, 0)))
    n, size = int(logged.count[worst]), float(logged.size[worst])
    strict = z_bound(np.array([n]), bound.ddof)[0]
    blatant = size >= at.UNKNOWN_SLACK * bound.limit[worst] or not bound.normalised
    yield this.finding(
        Severity.ERROR if blatant else Severity.WARNING,
        f"a logged advantage of {size:.4g} in a group of {n}: a normalised advantage cannot exceed "
        f"{strict:.3g} there; {beyond.sum()} groups are beyond their bound",
        {
            "groups": int(beyond.sum()),
            "largest": size,
            "group_size": n,
            "bound_ddof0": float(np.sqrt(n - 1)),
            "bound_ddof1": (n - 1) / float(np.sqrt(n)),
            "normalised": bound.normalised,
            "limit_used": float(bound.limit[worst]),
        },
        [FIX_FORMULA, CLIP],
        case.span(beyond),
    )


def _blown_up(
    case: Case, logged: LoggedAdvantages, apart: NDArray[np.float64]
) -> NDArray[np.bool_]:
    span = logged.high - logged.low
    clear = case.summary.mixed & ~case.near_tied & np.isfinite(span)
    usual = float(np.median(span[clear])) if clear.any() else 1.0
    grown = span >= at.BLOW_UP_FACTOR * apart
    if clear.any():
        # against the factor of clear groups: rewards may be large or small by themselves
        grown = span / apart >= at.BLOW_UP_FACTOR * float(np.median(span[clear] / apart[clear]))
    return (span >= at.BLOWN_UP * usual) & grown


def _ties(case: Case) -> Ties | None:
    if case.logged is None or not case.grouped or case.flat_batch is not None:
        return None
    ties = read_ties(case.groups.step, case.summary, case.kinds, case.logged)
    return ties if ties.phantom.any() else None


def _phantom_severity(largest: float) -> Severity:
    if largest >= at.PHANTOM_DROWNS:
        return Severity.ERROR
    return Severity.WARNING if largest >= at.PHANTOM_STEERS else Severity.INFO

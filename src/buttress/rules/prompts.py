"""What the success counts of single prompts say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.causes import cause, collapse_severity
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.floor import floor_curve
from buttress.rules.prompt_counts import contradictions, count_prompts
from buttress.rules.rule import Rule, rule

CHANGE_PROMPTS = Advice(
    "change the prompts, not the group size: `buttress prompts` lists those that are never and "
    "always solved",
    "a prompt with a success rate of 0 or 1 ties at every group size",
    "choosing data",
)
FIX_VERDICTS = Advice(
    "grade these completions again and compare: time-outs, sampling in a judge, hidden state in "
    "the environment",
    "a verdict that changes by itself is noise of full size",
    "minutes",
)
REHEARSE = Advice(
    "keep sampling solved prompts now and then, or hold the policy near itself on them (MCPO's "
    "hinge-KL)",
    "tied groups have no gradient, so nothing protects what is mastered",
    "a few rollouts per step",
)
SMALLER_STEPS = Advice(
    "check for a jump in grad_norm or kl at that time; a lower learning rate or clip range",
    "one bad step loses what many have learnt",
    "slower learning",
)


@rule("group-size-floor", "BT901")
def group_size_floor(this: Rule, case: Case) -> Iterator[Finding]:
    """A larger group stops helping: some prompts tie at every size.

    What it sees
        The share of tied groups at sizes 2, 4, 8, ... up to the rollouts that prompts have,
        estimated from their success counts, and the floor under it: the share of the prompts with
        a success rate of 0 or 1. Speaks when the next doubling is expected to free fewer than 5 %
        of the groups, and when more than 20 % would stay tied at any size.
    Why it matters
        Twice the rollouts for nothing.
    How sure
        The curve is unbiased: drawing m of n rollouts with c successes without replacement ties
        with probability [C(c, m) + C(n-c, m)] / C(n, m). The floor is a model's: some prompts have
        rate 0, some 1, the rates of the others are Beta. Its 95 % interval stands beside it, and
        the rule is silent where that reaches below 10 %. A rate too small to show in the rollouts
        at hand counts as 0. Rollouts of a prompt are pooled over the second half of the run.
    What to do
        Change the prompts. `buttress plan` shows the whole curve, with intervals and costs.
    When to ignore
        When the prompts will change anyway.
    References
        The expected ACR is the mean of p^G + (1-p)^G over prompts; our own estimate.
    """
    course = case.course
    if collapse_severity(case) is None or course.mastered or course.fallen or cause(case):
        return
    counts = case.success_counts
    curve = floor_curve(count_prompts(case.groups, counts, late=True)) if counts else None
    if curve is None or curve.prompts < at.FLOOR_PROMPTS:
        return
    sure = curve.floor > at.FLOOR_LEVEL and curve.floor_interval[0] > at.FLOOR_LEVEL / 2
    if curve.next_gain >= at.FLOOR_GAIN or not sure:
        return
    shares = ", ".join(f"{one:.0%}" for one in curve.tied)
    low, high = curve.floor_interval
    yield this.finding(
        Severity.INFO,
        f"a larger group stops helping at about {curve.floor:.0%} tied groups (95 %: {low:.0%} to "
        f"{high:.0%}): {shares} at sizes {', '.join(map(str, curve.sizes))}",
        {
            "floor": curve.floor,
            "floor_interval": [low, high],
            "sizes": list(curve.sizes),
            "tied": list(curve.tied),
            "never_solved": curve.never,
            "always_solved": curve.always,
            "prompts": curve.prompts,
        },
        [CHANGE_PROMPTS],
        case.span(),
    )


@rule("verifier-suspect", "BT902")
def verifier_suspect(this: Rule, case: Case) -> Iterator[Finding]:
    """The verifier may be wrong: nothing ever scores, or equal completions get different verdicts.

    What it sees
        No success in the whole run, over at least 32 prompts and 512 rollouts that the length cap
        does not explain; or, among pairs of equal completions in a group, 2 % and more with
        different verdicts.
    Why it matters
        A verifier that never accepts leaves the same trace as prompts out of reach, and is more
        common at the start of a project.
    How sure
        The first is a suspicion only. The second is a fact of the log.
    What to do
        Grade a few completions by hand.
    When to ignore
        With a judge that samples, as long as contradictions stay rare.
    References
        Our own rule.
    """
    if not case.grouped:
        return
    eligible, one = case.summary.eligible, case.correctness
    wrong = one.wrong if one else case.kinds == 0
    judged = one.eligible if one else eligible
    prompts = case.groups.prompt[judged]
    n_prompts = len(np.unique(prompts[prompts >= 0])) or int(judged.sum())
    rollouts = int(case.groups.sizes[judged].sum())
    silent = bool(wrong[judged].all()) and cause(case) in (None, "format")
    if silent and n_prompts >= at.SUSPECT_PROMPTS and rollouts >= at.SUSPECT_ROLLOUTS:
        # a reward that varies may be partial credit: the verifier then sees something
        yield this.finding(
            Severity.WARNING if case.summary.tied.sum() * 2 >= eligible.sum() else Severity.INFO,
            f"not one of {rollouts} rollouts of {n_prompts} prompts was ever scored as right",
            {"prompts": n_prompts, "rollouts": rollouts, "successes": 0},
            [advice.CHECK_VERIFIER, advice.REACHABLE],
            case.span(),
        )
    pairs = contradictions(case.groups, case.success)
    if pairs and pairs.differ >= 3 and pairs.differ >= at.CONTRADICTION_SHARE * pairs.equal:
        yield this.finding(
            Severity.WARNING,
            f"{pairs.differ} of {pairs.equal} pairs of equal completions in one group got "
            "different verdicts",
            {"equal_pairs": pairs.equal, "different_verdicts": pairs.differ},
            [FIX_VERDICTS],
            case.span(),
        )


@rule("mastery-lost", "BT903")
def mastery_lost(this: Rule, case: Case) -> Iterator[Finding]:
    """Prompts that were solved are solved no longer.

    What it sees
        Prompts with a success rate of 0.8 or more over some stretch of their visits, wherever in
        the run it lies, and of 0.2 or less from a later visit to the end; at least eight rollouts
        in either stretch; three prompts and 5 % of those that can be compared.
    Why it matters
        Solved prompts give no gradient, so nothing holds on to them.
    How sure
        Each prompt must pass Fisher's exact test over all pairs of stretches, with less than 5 %
        false discoveries among all prompts. And the visits of all prompts are shuffled from their
        first success on: success that comes and goes from visit to visit is not called lost unless
        fewer than one shuffle in a hundred looks as bad. Prompts that come up once cannot be
        compared, and two visits of each are too few for the shuffles.
    What to do
        Keep sampling solved prompts now and then.
    When to ignore
        When the reward or the verifier changed in between.
    References
        MCPO, arXiv 2604.16972.
    """
    found = case.mastery
    if not case.grouped or found is None:
        return
    lost, n = np.flatnonzero(found.lost), int(found.compared.sum())
    if len(lost) < max(at.LOST_PROMPTS, at.LOST_SHARE * n) or found.p_value > at.LOST_CHANCE:
        return
    names = case.groups.prompt_labels[lost]
    yield this.finding(
        Severity.WARNING,
        f"{len(lost)} of {n} prompts that can be compared were solved over a stretch of the run "
        "and no longer at its end",
        {
            "lost": len(lost),
            "compared": n,
            "gained": int(found.gained.sum()),
            "p_value": found.p_value,
            "prompts": [str(name) for name in names[:10]],
        },
        [SMALLER_STEPS, REHEARSE],
        case.span(np.isin(case.groups.prompt, lost)),
    )

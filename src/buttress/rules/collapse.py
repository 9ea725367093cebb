"""How much of the run is collapsed, and of which kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.causes import (
    cause,
    collapse_severity,
    dominant_kind,
    of_kind,
    tied_by_kind,
    tied_in_question,
)
from buttress.rules.course import Spell, spells
from buttress.rules.finding import Finding, Severity
from buttress.rules.log_lines import ZERO_STD
from buttress.rules.rule import Rule, rule

_KINDS = ("all-wrong-collapse", "all-correct-collapse")


@rule(
    "advantage-collapse",
    "BT101",
    explains=(*_KINDS, "kl-only-gradient", "diluted-loss", "early-forecast"),
)
def advantage_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """A large share of the groups is tied: no advantage, no gradient.

    What it sees
        The advantage collapse rate (ACR): tied groups over groups with two or more scorable
        rollouts. A warning above 0.35, over the whole run or at its end; an error when it stays
        above 0.35 for more than 50 consecutive steps, or from 0.8 on. An info when the run got
        over it, or when it is the success of a run that mastered its prompts; a warning all the
        same when such a run was stuck for more than 50 steps on the way. An error, too, when a run
        that was alive ends in three or more steps of groups that are tied and not solved: what it
        had learnt is gone, whatever the rate over the whole run. Without rollouts it
        reads the scalar frac_reward_zero_std and never goes beyond a warning.
    Why it matters
        Rollouts of a tied group cost what all rollouts cost and change nothing. Neither the loss
        nor the mean reward shows it.
    How sure
        Ties are found by the range of the rewards in float64. The interval takes visits to one
        prompt as one cluster. Steps are smoothed over 64 groups. The line at 0.35 comes from runs
        on mathematics with 0.5B to 14B models; the line at 0.8 is ours. The scalar is weaker: TRL
        tests a float32 deviation, misses ties at values like 0.7 and 2.1, says 0 for unscorable
        groups and, with scale_rewards="batch" or normalize_then_sum, speaks of the whole batch. It
        reads too low, hardly ever too high.
    What to do
        The cause first: truncation, repeated texts, a dead reward component, then the difficulty
        of the prompts. All wrong and all correct need opposite cures. `buttress remedies` lists
        what can be switched on.
    When to ignore
        In the last steps of a run that has mastered its prompts.
    References
        arXiv 2605.21125, equation 6 and corollary 3.3.
    """
    if not len(case.groups):
        yield from _from_scalar(this, case)
        return
    severity = collapse_severity(case)
    if severity is None:
        return
    acr, course, spent = case.acr, case.course, case.spent
    longest, late = course.longest, course.late
    yield this.finding(
        severity,
        f"{acr:.0%} of the groups are tied ({case.collapse.tied} of {case.collapse.eligible})"
        f"{_when(case)}: {spent.wasted} of {spent.rollouts} rollouts carry no gradient",
        {
            "acr": acr,
            "acr_interval": list(case.collapse.interval()),
            "tied_groups": case.collapse.tied,
            "eligible_groups": case.collapse.eligible,
            **tied_by_kind(case),
            "wasted_rollouts": spent.wasted,
            "wasted_tokens": spent.tokens_wasted,
            "longest_steps_above": longest.length if longest else 0,
            "acr_at_end": late.acr if late else None,
            "mastered": course.mastered,
            "fell_at": course.fallen.first if course.fallen else None,
            "cause": cause(case),
            "limit": at.ACR_STALLED,
        },
        # the finding on the cause or the kind beside this one says the rest
        advice.against_collapse(case)[: 2 if cause(case) or dominant_kind(case) else None],
        _place(course.fallen or course.late or course.longest) or case.span(),
    )


@rule("all-wrong-collapse", "BT102")
def all_wrong_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """Most tied groups are all wrong: the prompts are out of reach, or never graded right.

    What it sees
        A high ACR of which at least 60 % are groups without one right rollout, by `correct` where
        known, else by the lowest reward level of the run. Silent where the length cap, a
        saturated format reward or repeated texts account for the groups: those come first.
    Why it matters
        Nothing in such a group says what would be better. The cure is the opposite of that for
        groups that are all correct.
    How sure
        As sure as the verifier. Without a `correct` column the lowest level seen is taken for
        wrong.
    What to do
        Check the verifier on a few completions, then bring the prompts within reach.
    When to ignore
        At the start of a run on hard prompts while the ACR falls.
    References
        arXiv 2605.21125, section 3 and table 3. 1 - (1 - p)^G is the chance of one right rollout.
    """
    yield from _kind(
        this, case, "all_wrong", "are all wrong: not one rollout was scored above the bottom"
    )


@rule("all-correct-collapse", "BT103")
def all_correct_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """Most tied groups are all correct: the prompts have nothing left to teach.

    What it sees
        A high ACR of which at least 60 % are groups that are right throughout, by `correct` where
        known, else by the highest reward level of the run. Silent where a constant format reward
        lifts groups in which nothing was solved. An info where the run rose to it.
    Why it matters
        The rollouts are spent on what is known. The cure is the opposite of that for groups that
        are all wrong.
    How sure
        Sure with a `correct` column. Without one, the highest level seen is taken for right; below
        1 that is doubtful and the finding says so.
    What to do
        Sample solved prompts rarely, add harder ones, or stop: the run is done.
    When to ignore
        When the run was meant to end here.
    References
        arXiv 2605.21125, section 3 and table 3; GRESO, arXiv 2506.02177.
    """
    yield from _kind(this, case, "all_correct", "are all correct: nothing left to learn from them")


def _kind(this: Rule, case: Case, kind: str, says: str) -> Iterator[Finding]:
    severity = collapse_severity(case)
    if severity is None or dominant_kind(case) != kind or cause(case):
        return
    question = tied_in_question(case)
    groups = of_kind(case, kind) & question
    n, tied = int(groups.sum()), int(question.sum())
    todo = advice.against_collapse(case)
    level = float(np.median(case.summary.low[groups]))
    # the highest level that a run shows need not be the highest that there is
    doubtful = kind == "all_correct" and case.correctness is None and level < 1
    if doubtful:
        says = (
            f"are tied at {level:g}, the highest reward of this run; whether that is right is open"
        )
        todo = [advice.LOG_CORRECTNESS]
    yield this.finding(
        min(severity, Severity.WARNING) if doubtful else severity,
        f"{n} of {tied} tied groups {says}",
        {
            "groups": n,
            "share_of_tied": n / tied,
            "reward_level": level,
            "by": case.correctness.column if case.correctness else "reward levels",
            "mastered": case.course.mastered,
        },
        todo,
        case.span(groups),
    )


def _place(spell: Spell | None) -> tuple[int, int] | None:
    return (spell.first, spell.last) if spell else None


def _when(case: Case) -> str:
    course = case.course
    longest, late = course.longest, course.late
    if course.fallen:
        acr = course.fallen.acr
        return f"; since step {course.fallen.first}, {acr:.0%} are tied and not solved"
    if course.mastered:
        return ", all correct at the end as the run mastered its prompts"
    if longest is None or len(case.steps.step) == 1:
        return ""
    if late and late.first > case.steps.step[0]:
        return f", {late.acr:.0%} since step {late.first}"
    if not course.ends_above:
        return f", most of them from step {longest.first} to {longest.last}"
    return ""


def _from_scalar(this: Rule, case: Case) -> Iterator[Finding]:
    found = case.run.scalar(ZERO_STD)
    if found is None:
        return
    mean = float(found.value.mean())
    above, _ = spells(found.step, found.value, np.ones_like(found.value))
    longest = max(above, key=lambda spell: spell.length, default=None)
    if not mean > at.ACR_STALLED:
        return
    cap = case.length_cap
    capped = cap is not None and cap.share >= at.CLIPPED_STEP
    yield this.finding(
        Severity.WARNING,
        f"{ZERO_STD} averages {mean:.2f} over {len(found.value)} log lines: that share of the "
        "groups has no reward spread (by the trainer's scalar, without rollouts)",
        {
            "acr": None,
            ZERO_STD: mean,
            "lines": len(found.value),
            "longest_steps_above": longest.length if longest else 0,
            "limit": at.ACR_STALLED,
        },
        advice.AGAINST_TRUNCATION if capped else [advice.LOG_ROLLOUTS, advice.resample(mean)],
        (int(found.step[0]), int(found.step[-1])),
    )

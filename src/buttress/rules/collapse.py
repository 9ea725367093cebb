"""How much of the run is collapsed, and of which kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from buttress.measures import signal
from buttress.rules import thresholds
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule


@rule("advantage-collapse", "BT101", explains=("all-wrong-collapse", "all-correct-collapse"))
def advantage_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """A large share of the groups is tied: no advantage, no gradient.

    What it sees
        The advantage collapse rate (ACR): tied groups over groups with two or more scorable
        rollouts. A warning above 0.35; an error when it stays above 0.35 for more than 50
        consecutive steps, or when it is 0.8 or more over the whole run.
    Why it matters
        Rollouts of a tied group cost what all rollouts cost and change nothing. Neither the loss
        nor the mean reward shows it.
    How sure
        Ties are found by the range of the rewards in float64. The interval takes visits to one
        prompt as one cluster. The line at 0.35 comes from runs on mathematics with 0.5B to 14B
        models; the line at 0.8 is ours.
    What to do
        Look at the cause first: truncation, a dead reward component, the difficulty of the
        prompts. Then choose a remedy: `buttress remedies`.
    When to ignore
        In the last steps of a run that has mastered its prompts.
    References
        arXiv 2605.21125, equation 6 and corollary 3.3.
    """
    acr = case.acr
    if not acr > thresholds.ACR_STALLED:
        return
    longest = longest_run_above(case.steps.acr, thresholds.ACR_STALLED)
    stalled = longest > thresholds.STALLED_STEPS
    low, high = case.collapse.interval()
    spent = signal(case.groups, case.tolerance)
    above = case.steps.step[case.steps.acr > thresholds.ACR_STALLED]
    yield this.finding(
        Severity.ERROR if stalled or acr >= thresholds.ACR_DEAD else Severity.WARNING,
        f"{acr:.0%} of the groups are tied ({case.collapse.tied} of {case.collapse.eligible}): "
        f"{spent.wasted} of {spent.rollouts} rollouts carry no gradient",
        {
            "acr": acr,
            "acr_interval": [low, high],
            "tied_groups": case.collapse.tied,
            "eligible_groups": case.collapse.eligible,
            "all_wrong": case.counts.all_wrong,
            "all_correct": case.counts.all_correct,
            "tied_between": case.counts.tied_between,
            "wasted_rollouts": spent.wasted,
            "wasted_tokens": spent.tokens_wasted,
            "longest_steps_above": longest,
            "limit": thresholds.ACR_STALLED,
        },
        [
            Advice(
                "resample tied prompts during the run (DAPO dynamic sampling)",
                "every group in the update then carries a signal",
                f"about {1 / max(1 - acr, 1e-9):.1f}x the rollouts at this ACR"
                if acr < 1
                else "unbounded here: no group is mixed",
            ),
        ],
        (int(above.min()), int(above.max())) if len(above) else case.span(),
    )


def longest_run_above(values: np.ndarray, limit: float) -> int:
    """Return the largest number of consecutive entries above a limit; NaN breaks a run."""
    longest = current = 0
    for above in values > limit:
        current = current + 1 if above else 0
        longest = max(longest, current)
    return longest

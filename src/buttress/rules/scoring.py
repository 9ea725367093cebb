"""Rewards that are missing, and groups that were removed before the log was written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from buttress.groups.build import as_float64
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule

REPAIR_SCORER = Advice(
    "find out why the scorer returns nothing: time-outs, exceptions, answers that it cannot parse",
    "a rollout without a reward is paid for and left out",
    "none",
)
SCORE_FAILURES = Advice(
    "where the completion is to blame (no answer found), score it as wrong instead of null",
    "a null takes the failure out of the comparison",
    "changes what is rewarded: do it on purpose, and not for faults of the scorer",
)
LOG_BEFORE = Advice(
    "log the rollouts before the filter, or its counts (how many groups were sampled and dropped)",
    "the collapse rate is the share of what was dropped",
    "disk space",
)
READ_COUNTER = Advice(
    "read the trainer's own counter of dropped groups until then",
    "it is the ACR of the prompts that were tried",
    "none",
)


@rule("unscorable-rewards", "BT501")
def unscorable_rewards(this: Rule, case: Case) -> Iterator[Finding]:
    """Some rollouts have no reward: null, NaN or infinite.

    What it sees
        The share of rollouts without a finite reward: an info below 5 %, a warning from there on,
        an error when nothing is scored at all.
    Why it matters
        They are left out of every baseline. A group with fewer than two scores has no advantage and
        is neither wrong nor tied: TRL counts it as a group with spread.
    How sure
        Certain; the count is of the log.
    What to do
        Repair the scorer, or score what the completion is to blame for.
    When to ignore
        When a reward function leaves rollouts out on purpose.
    References
        TRL's rule for reward functions that return None; our own lines.
    """
    total, missing = case.spent.rollouts, case.spent.unscorable
    if not missing:
        return
    null = ~np.isfinite(case.groups.rewards)
    per_group = np.bincount(case.groups.group_of[null], minlength=len(case.groups))
    share = missing / total
    severity = Severity.WARNING if share >= at.UNSCORABLE_SHARE else Severity.INFO
    touched = int((per_group > 0).sum())
    yield this.finding(
        Severity.ERROR if missing == total else severity,
        "no rollout has a reward"
        if missing == total
        else f"{missing} of {total} rollouts ({share:.1%}) have no reward, in {touched} "
        f"group{'s' * (touched != 1)}; {case.counts.unscorable} of the groups have fewer than two "
        "scores left",
        {
            "unscorable": missing,
            "share": share,
            "infinite": int(np.isinf(as_float64(case.groups.values)).sum()),
            "groups_touched": touched,
            "groups_unscorable": case.counts.unscorable,
        },
        [REPAIR_SCORER, SCORE_FAILURES],
        case.span(per_group > 0),
    )


@rule("filtered-log", "BT502")
def filtered_log(this: Rule, case: Case) -> Iterator[Finding]:
    """Every logged group is mixed: tied ones were filtered out before the log was written.

    What it sees
        A log without one tied group, with groups missing (from the configured number, from steps
        that hold fewer than others, from a counter of groups with holes), or in which chance all
        but excludes that none ties and the histogram of successes is that of a filtered sample.
        Or a trainer that is known to filter.
    Why it matters
        The collapse rate of such a log is 0 by construction and says nothing. It is reported as
        undefined.
    How sure
        Chance is computed under the beta-binomial that explains the log best without a filter,
        which favours the innocent reading. Only rewards of two levels convict by chance alone, in
        groups of four or more, and only if a beta-binomial without its two ends describes them.
        Rewards of many levels never do.
    What to do
        Log before the filter, or log its counts.
    When to ignore
        When the verdict is asked of something else than the collapse rate.
    References
        DAPO dynamic sampling, arXiv 2503.14476; the test is our own.
    """
    signs = case.filtered
    if signs is None or not case.grouped:
        return
    fewest, most = signs.groups_per_step
    if signs.known:
        story = "the trainer drops tied groups before it logs"
    elif signs.missing:
        story = f"every logged group is mixed and {signs.missing} groups are missing"
    else:
        story = f"every logged group is mixed, which has a chance of {signs.chance:.1g}"
    judged = "the ACR cannot be measured here" if signs.conclusive else "the ACR may be filtered"
    yield this.finding(
        Severity.WARNING if signs.conclusive else Severity.INFO,
        f"{story}: {judged}",
        {
            "groups": case.collapse.eligible,
            "missing": signs.missing,
            "groups_per_step": [fewest, most],
            "chance_of_no_tie": signs.chance,
            "conclusive": signs.conclusive,
        },
        [LOG_BEFORE, READ_COUNTER],
        case.span(),
    )

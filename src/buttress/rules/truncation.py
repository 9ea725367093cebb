"""Groups that are tied because their completions were cut off."""

from __future__ import annotations

from collections.abc import Iterator

from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.causes import collapse_severity, of_kind
from buttress.rules.finding import Finding, Severity
from buttress.rules.length_cap import CLIPPED, LengthCap
from buttress.rules.log_lines import ZERO_STD
from buttress.rules.rule import Rule, rule


@rule(
    "truncation-collapse",
    "BT104",
    explains=("advantage-collapse", "all-wrong-collapse", "verifier-suspect", "update-lost"),
)
def truncation_collapse(this: Rule, case: Case) -> Iterator[Finding]:
    """Groups are tied because their completions hit the length cap.

    What it sees
        Tied groups that are not all correct and of whose rollouts at least 80 % are truncated, by
        the `truncated` column; without it, tied groups of steps whose completions/clipped_ratio
        is 0.8 or more; without that, by lengths that pile up at a round maximum; without rollouts,
        by the scalar beside frac_reward_zero_std. Worth a warning when a tenth of all groups is
        lost this way, as bad as the collapse itself when it accounts for half of it.
    Why it matters
        A completion that was cut off has no answer to grade. It looks like a prompt out of reach,
        and every cure for hard prompts is spent in vain.
    How sure
        Not put down to the cap: groups in a run whose truncated rollouts succeed in 20 % of the
        cases, or half as often as complete ones (answers of fixed length all end at the cap). The
        scalar is an average over the step and names no group. A cap read off lengths is our
        reading and never more than a warning.
    What to do
        Raise the cap. Everything else comes after it.
    When to ignore
        When the cap is below the answer on purpose, as in length curricula.
    References
        DAPO, arXiv 2503.14476, section 3.4 (overlong filtering and soft overlong penalty).
    """
    cap = case.length_cap
    if cap is None:
        return
    if not len(case.groups):
        yield from _from_scalars(this, case, cap)
        return
    tied, explained = int(case.summary.tied.sum()), int(cap.explained.sum())
    if not case.grouped or not explained:
        return
    loss, share = explained / int(case.summary.eligible.sum()), explained / tied
    if loss < at.TRUNCATION_LOSS or share < at.TRUNCATION_SHARE:
        return
    severity = Severity.WARNING
    if share >= at.EXPLAINS and cap.seen_in != "length":
        severity = max(severity, collapse_severity(case) or severity)
    wrong = int(of_kind(case, "all_wrong").sum())
    yield this.finding(
        severity,
        f"{explained} of {tied} tied groups are truncated: (nearly) all of their completions hit "
        f"the length cap; {cap.share:.0%} of all completions do"
        f"{' (read off the lengths, which pile up there)' if cap.seen_in == 'length' else ''}",
        {
            "tied_groups": tied,
            "truncated_groups": explained,
            "share_of_tied": share,
            "all_wrong": wrong,
            "truncated_rollouts": cap.share,
            "success_when_truncated": cap.success,
            "seen_in": cap.seen_in,
        },
        advice.AGAINST_TRUNCATION,
        case.span(cap.explained),
    )


def _from_scalars(this: Rule, case: Case, cap: LengthCap) -> Iterator[Finding]:
    clipped, dead = case.run.scalar(CLIPPED), case.run.scalar(ZERO_STD)
    if clipped is None or dead is None:
        return
    tied = float(dead.value.mean())
    mixed_by_complete = at.CAP_GROUP * (1 - cap.share) + at.CAP_SLACK
    if cap.share < at.CLIPPED_STEP or tied <= at.ACR_STALLED or 1 - tied > mixed_by_complete:
        return
    yield this.finding(
        Severity.ERROR if tied >= at.ACR_DEAD else Severity.WARNING,
        f"{CLIPPED} averages {cap.share:.2f}: (nearly) every completion hits the length cap, and "
        f"{ZERO_STD} averages {tied:.2f}",
        {CLIPPED: cap.share, ZERO_STD: tied, "seen_in": cap.seen_in},
        advice.AGAINST_TRUNCATION,
        (int(clipped.step[0]), int(clipped.step[-1])),
    )

"""Groups of identical completions."""

from __future__ import annotations

from collections.abc import Iterator

from buttress.rules import advice
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule

CHECK_ENTROPY = Advice(
    "look at the entropy: a policy that has lost it repeats itself at any temperature",
    "no sampling setting brings it back",
    "an earlier checkpoint, or an entropy or KL term",
)
CHECK_ENDING = Advice(
    "check the chat template and the stop tokens: the completions are empty",
    "a first token that ends the answer leaves nothing to compare",
    "none",
)


@rule(
    "duplicate-completions",
    "BT701",
    explains=("advantage-collapse", "all-wrong-collapse", "all-correct-collapse"),
)
def duplicate_completions(this: Rule, case: Case) -> Iterator[Finding]:
    """Rollouts of one group are the same text.

    What it sees
        Groups that hold one text only, and completions that repeat another of their group. For
        long texts (16 tokens or 64 characters) a warning from 10 % of the groups on, or when a
        quarter of the completions repeat; an error from 80 % on. For short texts a warning from
        half of the groups on. Groups that are all correct do not count: a mastered prompt may
        well have one answer.
    Why it matters
        Equal texts get equal rewards: the group is tied whatever the prompt. The fault is in the
        sampling, and neither easier nor harder prompts cure it.
    How sure
        Long texts do not repeat by chance at a temperature near 1. Short answers do, and a policy
        that has lost its entropy repeats long ones too.
    What to do
        Check temperature, seeds per rollout and rank, and caches of responses; then the entropy.
    When to ignore
        With answers of a few tokens on prompts that are solved.
    References
        Our own rule.
    """
    repeats = case.repeats
    if repeats is None or not case.grouped or not repeats.known.any():
        return
    n = int(repeats.known.sum())
    stuck = repeats.identical & ~case.all_right
    share, every = float(stuck.sum()) / n, float(repeats.identical.sum()) / n
    severity = _severity(share, every, repeats.repeated_rate, long=repeats.long)
    if severity is None:
        return
    size = f", {repeats.length:.0f} {repeats.unit} long" if repeats.length == repeats.length else ""
    message = (
        f"{repeats.identical.sum()} of {n} groups hold one and the same text{size}"
        if severity is Severity.INFO or share >= _line(long=repeats.long)
        else f"{repeats.repeated_rate:.0%} of the completions repeat another of their group word "
        f"for word{size}"
    )
    empty = repeats.length == 0
    yield this.finding(
        severity,
        message,
        {
            "groups": n,
            "identical": int(repeats.identical.sum()),
            "identical_and_not_all_correct": int(stuck.sum()),
            "repeated_rate": repeats.repeated_rate,
            "median_length": repeats.length,
            "unit": repeats.unit,
        },
        [CHECK_ENDING] if empty else [advice.RANDOMISE, CHECK_ENTROPY],
        case.span(repeats.identical if repeats.identical.any() else repeats.known),
    )


def _severity(share: float, every: float, repeated: float, *, long: bool) -> Severity | None:
    if share >= _line(long=long):
        return Severity.ERROR if long and share >= at.ACR_DEAD else Severity.WARNING
    if long and repeated >= at.REPEATED_LONG:
        return Severity.WARNING
    return Severity.INFO if long and every >= at.IDENTICAL_LONG else None


def _line(*, long: bool) -> float:
    return at.IDENTICAL_LONG if long else at.IDENTICAL_SHORT

"""Logs that hold less than the run, or some of it twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.measures import distinct_completions
from buttress.rules import thresholds as at
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.repeats import text_codes
from buttress.rules.rule import Rule, rule

LOG_EVERY_STEP = Advice(
    "log every step (TRL: logging_steps=1)",
    "TRL keeps the last generation only, the ones before it are lost",
    "larger files",
)
DEDUPLICATE = Advice(
    "count each generation once",
    "with steps_per_generation above gradient accumulation TRL writes it again under later steps",
    "none",
)
READ_AGAIN = Advice(
    "see `problems` for files and lines, and read the run again once it has stopped writing",
    "a file that is still written ends in half a line",
    "none",
)
COMPLETE_GROUPS = Advice(
    "find out what drops rollouts between sampling and the log (time-outs, filters, ranks)",
    "a group that lost rollouts ties more easily than the one that was trained on",
    "none",
)


@rule("partial-log", "BT801")
def partial_log(this: Rule, case: Case) -> Iterator[Finding]:
    """The log holds a part of the run only, or holds parts of it twice.

    What it sees
        What the reader knows (generations of every n-th step only, rollouts that stood twice and
        were dropped, unreadable rows), and what the rows show: groups below the usual size, gaps in
        the steps, groups that stand in the log word for word more than once.
    Why it matters
        Lost generations make intervals wider, not rates wrong. Rollouts that are missing inside
        groups make ties more frequent; repeated ones make intervals too narrow.
    How sure
        A warning when more than 1 % of the rows could not be read, or when a tenth of the groups is
        below the configured size; everything else is an info.
    What to do
        Log every step; read the run again when it is done.
    When to ignore
        When the log was thinned on purpose.
    References
        TRL's completions files keep a deque of one generation batch; our own lines.
    """
    facts, n = case.run.facts, case.groups.n_samples
    if facts.logged_every and facts.logged_every > 1:
        yield this.finding(
            Severity.INFO,
            f"the log holds the rollouts of one step in {facts.logged_every}: the generations in "
            "between are lost",
            {"logged_every": facts.logged_every, "share_logged": 1 / facts.logged_every},
            [LOG_EVERY_STEP],
            case.span(),
        )
    if facts.repeated:
        yield this.finding(
            Severity.INFO,
            f"{facts.repeated} rollouts stood in the log more than once and are counted once",
            {"repeated": facts.repeated, "kept": n},
            [DEDUPLICATE],
            case.span(),
        )
    if facts.unreadable:
        share = facts.unreadable / (facts.unreadable + n)
        rows = "1 rollout row" if facts.unreadable == 1 else f"{facts.unreadable} rollout rows"
        yield this.finding(
            Severity.WARNING if share > at.UNREADABLE_SHARE else Severity.INFO,
            f"{rows} ({share:.1%}) could not be read",
            {"unreadable": facts.unreadable, "share": share},
            [READ_AGAIN],
            case.span(),
        )
    yield from _short_groups(this, case)
    yield from _gaps(this, case)
    yield from _repeated_groups(this, case)


def _short_groups(this: Rule, case: Case) -> Iterator[Finding]:
    sizes = case.groups.sizes
    configured = case.run.facts.group_size
    counts = np.bincount(sizes) if len(sizes) else np.zeros(1, dtype=np.int64)
    usual = configured or int(counts.argmax())
    if usual < 2 or (not configured and counts[usual] < at.USUAL_SIZE * len(sizes)):
        return
    short = sizes < usual
    if not short.any():
        return
    many = configured is not None and short.mean() >= at.SHORT_SHARE
    which = "configured" if configured else "usual"
    yield this.finding(
        Severity.WARNING if many else Severity.INFO,
        f"{short.sum()} of {len(sizes)} groups hold fewer than the {which} {usual} rollouts",
        {
            "groups": int(short.sum()),
            "usual_size": usual,
            "missing_rollouts": int((usual - sizes[short]).sum()),
            "share": float(short.mean()),
        },
        [COMPLETE_GROUPS],
        case.span(short),
    )


def _gaps(this: Rule, case: Case) -> Iterator[Finding]:
    steps = np.unique(case.groups.step)
    if len(steps) < 3:
        return
    apart = np.diff(steps)
    stride = int(np.median(apart))
    missing = int((apart // stride - 1)[apart > stride].sum())
    share = missing / (missing + len(steps))
    if share < at.SHORT_SHARE:
        return
    yield this.finding(
        Severity.INFO,
        f"{missing} of {missing + len(steps)} steps up to {steps[-1]} have no rollouts",
        {"missing_steps": missing, "share": share, "stride": stride},
        [LOG_EVERY_STEP],
        (int(steps[0]), int(steps[-1])),
    )


def _repeated_groups(this: Rule, case: Case) -> Iterator[Finding]:
    repeated = repeated_groups(case.groups)
    n = int(repeated.sum())
    if n < at.REPEATED_GROUPS * len(case.groups) or not n:
        return
    yield this.finding(
        Severity.INFO,
        f"{n} of {len(case.groups)} groups stand in the log word for word more than once: one "
        "generation under several steps",
        {"groups": n, "share": n / len(case.groups)},
        [DEDUPLICATE],
        case.span(repeated),
    )


def repeated_groups(groups: Groups) -> NDArray[np.bool_]:
    """Return which groups hold the same texts as an earlier group of their prompt.

    Short answers recur by themselves: groups of fewer than four different texts never count, nor
    does any where the run has few different texts for its rollouts.
    """
    repeated = np.zeros(len(groups), dtype=bool)
    codes = text_codes(groups)
    filled = np.flatnonzero(groups.sizes >= at.REPEATED_TEXTS)
    if codes is None or not len(filled):
        return repeated
    # a sum does not depend on the order; the multiplication spreads codes that are small numbers
    mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    sums = np.add.reduceat(mixed, groups.offsets[:-1][groups.sizes > 0])
    signature = np.zeros(len(groups), dtype=np.uint64)
    signature[groups.sizes > 0] = sums
    signature += groups.prompt.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    _, first, place = np.unique(signature[filled], return_index=True, return_inverse=True)
    again = filled[np.arange(len(filled)) != first[place]]
    if not len(again) or len(np.unique(codes)) < at.VARIED_TEXTS * len(codes):
        return repeated
    distinct = distinct_completions(groups.select(again))
    assert distinct is not None
    repeated[again] = distinct >= at.REPEATED_TEXTS
    return repeated

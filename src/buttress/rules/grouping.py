"""Groups that are not the sets that the trainer compares."""

from __future__ import annotations

from collections.abc import Iterator

from buttress.groups import GroupingProblem
from buttress.groups.check import FATAL_SHARE
from buttress.rules.case import Case
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import Rule, rule

NAME_THE_KEY = Advice(
    "name the column that identifies the group: --map group=COLUMN",
    "every rate here is a rate over groups",
    "none",
)
GIVE_THE_SIZE = Advice(
    "or give the number of rollouts per prompt: --group-size N",
    "runs of N consecutive rows are then a group, where the log keeps that order",
    "none",
)
FINAL_ROWS = Advice(
    "keep one row per rollout: the last turn or output of each",
    "rows of one rollout share its reward and tie by themselves",
    "none",
)
LOG_IDS = Advice(
    "log an id per drawn group (TRL: log_extra; verl V1: uid)",
    "a prompt that is drawn twice in a step makes two groups",
    "one column",
)
GROUP_THE_TRAINER = Advice(
    "normalise within the group in the trainer: check the group size, and that every group arrives "
    "complete before advantages are computed",
    "some trainers fall back to the whole batch when the number of samples is not as configured",
    "none",
)
_ADVICE = {
    "fan_out": [FINAL_ROWS],
    "merged_groups": [LOG_IDS, NAME_THE_KEY],
}


@rule(
    "broken-grouping",
    "BT401",
    explains=(
        "advantage-collapse",
        "phantom-advantage",
        "impossible-advantage",
        "filtered-log",
        "partial-log",
    ),
)
def broken_grouping(this: Rule, case: Case) -> Iterator[Finding]:
    """The groups of the log, or of the trainer, are not the rollouts of one prompt.

    What it sees
        Groups of one rollout; one prompt split over ids, or into one fragment per rank; rows of
        several prompts in one group; two groups under one id; several rows per rollout. An error
        where it touches more than a tenth of the groups (half, for single rollouts): the ACR is
        then undefined. And logged advantages that compare each rollout with its whole step: the
        log is right there, the trainer is not.
    Why it matters
        A reshape over interleaved rows reports 0 where every group is tied, and the other way
        round. A trainer that groups wrongly trains on the difference between prompts.
    How sure
        Equal prompt text alone is never held against a log: a trainer may draw a prompt twice.
        Flat-batch advantages must agree with those of the step to half a per cent in nine of ten
        groups; they are right for estimators with a batch baseline (REINFORCE++).
    What to do
        Name the group column, or the group size; in the trainer, check which rows it normalises.
    When to ignore
        A few single rollouts at the torn end of a file.
    References
        Our own rule; TRL and verl traps on which it rests are described in their issue trackers.
    """
    for problem in case.grouping:
        yield this.finding(
            _severity(problem),
            problem.message,
            {"kind": problem.kind, "groups": problem.groups, "share": problem.share},
            _ADVICE.get(problem.kind, [NAME_THE_KEY, GIVE_THE_SIZE]),
            case.span(),
        )
    if case.grouped and case.flat_batch:
        yield _flat(this, case)


def _flat(this: Rule, case: Case) -> Finding:
    flat = case.flat_batch
    assert flat is not None
    by_choice = "" if flat.uneven else "; right only for an estimator with a batch baseline"
    return this.finding(
        # uneven groups point to a fall-back that nobody asked for
        Severity.ERROR if flat.uneven else Severity.WARNING,
        f"logged advantages of {flat.groups} groups equal the reward minus the mean of the whole "
        f"step{'' if flat.scale == 'none' else ', over its deviation'}: they were computed over "
        f"the flat batch, not within groups{by_choice}",
        {
            "kind": "flat_batch",
            "groups": flat.groups,
            "share": flat.share,
            "scale": flat.scale,
            "largest_in_tied_group": flat.largest,
            "uneven_groups": flat.uneven,
        },
        [GROUP_THE_TRAINER],
        flat.steps,
    )


def _severity(problem: GroupingProblem) -> Severity:
    if problem.fatal:
        return Severity.ERROR
    return Severity.WARNING if problem.share > FATAL_SHARE else Severity.INFO

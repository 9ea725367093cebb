"""Is the grouping what the trainer compared? Named problems, found before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups.groups import Groups
from buttress.groups.identity import pair_codes
from buttress.groups.run import LogFacts

Kind = Literal[
    "singletons", "split_prompt", "rank_fragments", "interleaved_rows", "merged_groups", "fan_out"
]

# Our own lines: a fault that touches less than this share of the groups leaves the rates usable.
FATAL_SHARE = 0.1
SYSTEMATIC = 0.9
MODAL = 0.6


class GroupingProblem(NamedTuple):
    """One way in which the groups are not the trainer's groups."""

    kind: Kind
    groups: int  # how many groups show it
    share: float  # of all groups
    fatal: bool  # rates over these groups would mean nothing
    message: str


def check_grouping(groups: Groups, facts: LogFacts | None = None) -> list[GroupingProblem]:
    """Return what is wrong with the grouping, worst first; an empty list when nothing is.

    Sees singletons, one prompt split over ids, per-rank fragments, rows of several prompts
    interleaved in one group, two groups merged under one id, and several rows per rollout.
    Equal prompt text alone is never held against a log: a trainer may draw a prompt twice.

    Parameters
    ----------
    facts
        What the reader knows of the log; what it does not know is judged from the rows alone, and
        then only where they leave one reading.

    Examples
    --------
    >>> groups = Groups.from_flat([1, 0, 1, 0], ["a", "b", "c", "d"])
    >>> [(problem.kind, problem.fatal) for problem in check_grouping(groups)]
    [('singletons', True)]
    """
    if not len(groups):
        return []
    facts = facts or LogFacts()
    found = [problem for check in _CHECKS for problem in check(groups, facts)]
    return sorted(found, key=lambda problem: (not problem.fatal, -problem.share))


def _singletons(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    alone = groups.sizes == 1
    n, share = int(alone.sum()), float(alone.mean())
    torn_end = n == 1 and len(groups) > 1 and bool(alone[-1])
    if share > FATAL_SHARE and not torn_end:
        yield GroupingProblem(
            "singletons",
            n,
            share,
            share > 0.5,
            f"{n} of {len(groups)} groups hold a single rollout: what stands for a "
            "group in the log is not the set that the trainer compares",
        )


class _Visits(NamedTuple):
    """The groups of each prompt in each step; arrays of shape ``(visit,)``."""

    parts: NDArray[np.int64]  # how many groups
    largest: NDArray[np.int64]  # rollouts of the largest
    total: NDArray[np.int64]  # rollouts of all

    @classmethod
    def of(cls, groups: Groups) -> _Visits:
        known = (groups.prompt >= 0) & (groups.sizes > 0)
        visit = pair_codes(groups.step[known], groups.prompt[known])
        sizes = groups.sizes[known]
        parts = np.bincount(visit)
        largest = np.zeros(len(parts), dtype=np.int64)
        np.maximum.at(largest, visit, sizes)
        return cls(parts, largest, np.bincount(visit, weights=sizes).astype(np.int64))


def _split_prompts(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    if facts.grouped_by in ("position", "prompt"):
        return
    visits = _Visits.of(groups)
    if not (visits.parts > 1).any():
        return
    torn = _torn(visits, facts.group_size)
    if torn.any():
        n = int(visits.parts[torn].sum())
        share = n / len(groups)
        yield GroupingProblem(
            "split_prompt",
            n,
            share,
            share > FATAL_SHARE,
            f"{int(torn.sum())} prompts are split over {n} group ids within one step: the "
            "rollouts of a prompt do not share an id",
        )
        return
    yield from _fragments(groups, facts, visits)


def _torn(visits: _Visits, group_size: int | None) -> NDArray[np.bool_]:
    """Return the visits whose rollouts make up one group and stand under several ids.

    A prompt that was drawn twice holds two groups' worth of rollouts, so that pieces give
    themselves away by adding up to one group.
    """
    split = visits.parts > 1
    singles = split & (visits.largest == 1)
    if group_size:
        return singles | (split & (visits.largest < group_size) & (visits.total <= group_size))
    usual, share = _mode(visits.total)
    pieces = split & (visits.total == usual) & (visits.largest < usual)
    whole = ((visits.parts == 1) & (visits.total == usual)).any()
    uneven = (visits.total != visits.parts * visits.largest)[pieces].any()
    # equal pieces of every prompt may also be groups of prompts that were drawn twice
    told = whole or (uneven and len(visits.parts) > 2 and share >= SYSTEMATIC)
    return singles | pieces if share >= MODAL and told else singles


def _fragments(groups: Groups, facts: LogFacts, visits: _Visits) -> Iterator[GroupingProblem]:
    parts, total = _mode(visits.parts)[0], _mode(visits.total)[0]
    regular = (visits.parts == parts) & (visits.total == total)
    regular &= total == visits.parts * visits.largest
    if len(regular) <= 2 or parts < 2 or regular.mean() < SYSTEMATIC:
        return
    size = total // parts
    if facts.group_size == size:
        return  # complete groups of prompts that the trainer draws several times
    if len(visits.parts) < 2 * len(np.unique(groups.step)):
        return  # steps of one prompt: all groups of a step share it by design
    # without steps the groups of one prompt may be visits in different steps
    sure = facts.group_size is not None or bool(groups.step.any())
    doubt = "" if sure else "; or, since the log has no steps, as many visits of each prompt"
    yield GroupingProblem(
        "rank_fragments",
        int(visits.parts[regular].sum()),
        float(visits.parts[regular].sum() / len(groups)),
        sure,
        f"every prompt of every step stands under {parts} ids of {size} rollouts each: fragments "
        f"of one group of {total}, usually one per rank{doubt}",
    )


def _mode(counts: NDArray[np.int64]) -> tuple[int, float]:
    """Return the most frequent number and its share."""
    times = np.bincount(counts)
    return int(times.argmax()), float(times.max() / len(counts))


def _mixed_prompts(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    prompts = groups.columns.get("prompt")
    if prompts is None or not len(prompts):
        return
    of_group = np.repeat(groups.prompt, groups.sizes)
    foreign = prompts != of_group
    if not foreign.any():
        return
    group, known = groups.group_of, prompts >= 0
    foreign &= known & (of_group >= 0)
    if not foreign.any():
        return
    mixed = np.zeros(len(groups), dtype=bool)
    mixed[group[foreign]] = True
    n, share = int(mixed.sum()), float(mixed.mean())
    # a prompt that recurs in another group of its step was torn apart: the rows are interleaved
    visit = pair_codes(groups.step[group[known]], prompts[known])
    place = pair_codes(visit, group[known])
    visit_of_place = np.zeros(int(place.max()) + 1, dtype=np.int64)
    visit_of_place[place] = visit
    torn = np.bincount(visit_of_place)[visit[mixed[group[known]]]] > 1
    kind: Kind = "interleaved_rows" if torn.mean() > 0.5 else "merged_groups"
    if kind == "merged_groups":
        story = "one group id covers the rollouts of several prompts"
    elif facts.grouped_by == "position":
        story = "the rows of several prompts are interleaved, so that neighbours are not a group"
    else:
        story = (
            "the ids do not belong to their rows: each covers rollouts of several prompts and each "
            "prompt is spread over several ids (ids shuffled, or rows interleaved, then numbered)"
        )
    yield GroupingProblem(
        kind, n, share, share > FATAL_SHARE, f"{n} of {len(groups)} groups mix prompts: {story}"
    )


def _merged_by_size(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    # a trainer's own id may mean a larger group; only inferred groups merge by accident
    if facts.grouped_by != "prompt":
        return
    usual, share = _mode(groups.sizes)
    usual = facts.group_size or usual
    if usual < 2 or (facts.group_size is None and share < MODAL):
        return
    larger = (groups.sizes > usual) & (groups.sizes % usual == 0)
    if not larger.any():
        return
    share = float(larger.mean())
    yield GroupingProblem(
        "merged_groups",
        int(larger.sum()),
        share,
        share > FATAL_SHARE,
        f"{larger.sum()} groups hold a multiple of {usual} rollouts: a prompt was drawn more than "
        "once in a step and the log does not tell its groups apart",
    )


def _fan_out(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    sample = groups.columns.get("sample")
    if sample is None or sample.dtype.kind not in "iuf" or not len(sample):
        return
    if not (sample >= 0).all():
        return
    rising = np.append(True, sample[1:] > sample[:-1])
    rising[groups.offsets[:-1][groups.sizes > 0]] = True
    if rising.all():
        return
    rollout = pair_codes(groups.group_of, sample.astype(np.int64))
    rows = np.bincount(rollout)
    if (rows <= 1).all():
        return
    touched = np.zeros(len(groups), dtype=bool)
    touched[groups.group_of[rows[rollout] > 1]] = True
    share = float(touched.mean())
    yield GroupingProblem(
        "fan_out",
        int(touched.sum()),
        share,
        share > FATAL_SHARE,
        f"{touched.sum()} groups hold several rows of one rollout (turns or outputs): the "
        "rows are not independent samples",
    )


_CHECKS: tuple[Callable[[Groups, LogFacts], Iterator[GroupingProblem]], ...] = (
    _singletons,
    _split_prompts,
    _mixed_prompts,
    _merged_by_size,
    _fan_out,
)

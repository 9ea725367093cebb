"""Is the grouping what the trainer compared? Named problems, found before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups.build import codes_of
from buttress.groups.groups import Groups
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
    """
    if not len(groups):
        return []
    facts = facts or LogFacts()
    found = [problem for check in _CHECKS for problem in check(groups, facts)]
    return sorted(found, key=lambda problem: (not problem.fatal, -problem.share))


def _singletons(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    alone = groups.sizes == 1
    share = float(alone.mean())
    # one or two may be the torn end of a file
    if share > FATAL_SHARE:
        yield GroupingProblem(
            "singletons",
            int(alone.sum()),
            share,
            share > 0.5,
            f"{alone.sum()} of {len(groups)} groups hold a single rollout: the group ids name "
            "rollouts, not the sets that the trainer compares",
        )


def _split_prompts(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    known = groups.prompt >= 0
    if not known.any():
        return
    pair = _pairs(groups.step[known], groups.prompt[known])
    parts = np.bincount(pair)
    sizes = groups.sizes[known]
    if facts.grouped_by == "position" or not (parts > 1).any():
        return
    largest, total = np.zeros(len(parts)), np.bincount(pair, weights=sizes)
    np.maximum.at(largest, pair, sizes)
    split = parts > 1
    usual = facts.group_size or int(groups.sizes.max())
    torn = split & (largest < usual) & (total <= usual)
    torn |= split & (largest == 1)
    if torn.any():
        n = int(parts[torn].sum())
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
    regular = (parts == parts[0]) & (total == total[0]) & (total == parts * largest)
    if len(parts) > 2 and parts[0] > 1 and regular.mean() >= SYSTEMATIC:
        yield GroupingProblem(
            "rank_fragments",
            len(groups),
            1.0,
            True,
            f"every prompt of every step stands under {parts[0]} ids of {int(largest[0])} rollouts "
            f"each: fragments of one group of {int(total[0])}, usually one per rank",
        )


def _mixed_prompts(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    prompts = groups.columns.get("prompt")
    if prompts is None:
        return
    group = groups.group_of
    known = prompts >= 0
    foreign = known & (groups.prompt[group] >= 0) & (prompts != groups.prompt[group])
    mixed = np.zeros(len(groups), dtype=bool)
    mixed[group[foreign]] = True
    if not mixed.any():
        return
    n, share = int(mixed.sum()), float(mixed.mean())
    # a prompt that recurs in another group of its step was torn apart: the rows are interleaved
    places = _pairs(_pairs(groups.step[group], prompts)[known], group[known])
    prompt_of_place = np.zeros(places.max() + 1, dtype=np.int64)
    prompt_of_place[places] = _pairs(groups.step[group], prompts)[known]
    recurs = np.bincount(prompt_of_place)
    torn = recurs[_pairs(groups.step[group], prompts)[known & mixed[group]]] > 1
    kind: Kind = "interleaved_rows" if torn.mean() > 0.5 else "merged_groups"
    story = (
        "the rows of several prompts are interleaved, so that consecutive rows are not a group"
        if kind == "interleaved_rows"
        else "one group id covers the rollouts of several prompts"
    )
    yield GroupingProblem(
        kind, n, share, share > FATAL_SHARE, f"{n} of {len(groups)} groups mix prompts: {story}"
    )


def _merged_by_size(groups: Groups, facts: LogFacts) -> Iterator[GroupingProblem]:
    # a trainer's own id may mean a larger group; only inferred groups merge by accident
    if facts.grouped_by != "prompt":
        return
    counts = np.bincount(groups.sizes)
    usual = facts.group_size or int(counts.argmax())
    larger = (groups.sizes > usual) & (groups.sizes % usual == 0)
    agrees = facts.group_size is not None or counts[usual] >= MODAL * len(groups)
    if usual < 2 or not larger.any() or not agrees:
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
    if sample is None or not (sample >= 0).all():
        return
    key = groups.group_of * (int(sample.max(initial=0)) + 1) + sample
    if (np.diff(key) > 0).all():
        return
    rollout = codes_of(key)[0]
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


def _pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one code per distinct pair."""
    span = int(second.max(initial=0)) + 2
    return codes_of(codes_of(first)[0] * span + second + 1)[0]


_CHECKS: tuple[Callable[[Groups, LogFacts], Iterator[GroupingProblem]], ...] = (
    _singletons,
    _split_prompts,
    _mixed_prompts,
    _merged_by_size,
    _fan_out,
)

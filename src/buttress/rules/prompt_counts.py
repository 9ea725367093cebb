"""Tries and successes per prompt, and equal completions with different verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.build import sample_index
from buttress.rules import thresholds as at
from buttress.rules.repeats import UNKNOWN, text_codes

_PART = 4000  # groups in which equal completions are compared


class Counts(NamedTuple):
    """Scored rollouts and successes, one entry per prompt (per group where no prompt is known)."""

    tries: NDArray[np.int64]
    wins: NDArray[np.float64]


class Pairs(NamedTuple):
    """Neighbouring equal completions of a group, and those with different verdicts."""

    equal: int
    differ: int


def count_groups(groups: Groups, success: NDArray[np.float64]) -> Counts | None:
    """Return the counts per group, None unless every known success is 0 or 1."""
    filled = groups.sizes > 0
    known = np.isfinite(success)
    hits = known & (success == 1)
    if not known.any() or not (hits | ~known | (success == 0)).all():
        return None
    starts = groups.offsets[:-1][filled]
    tries, wins = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups))
    tries[filled] = np.add.reduceat(known, starts, dtype=np.int64)
    wins[filled] = np.add.reduceat(hits, starts, dtype=np.int64)
    return Counts(tries, wins)


def late_groups(groups: Groups) -> NDArray[np.bool_]:
    """Return which groups are of the second half of the run; a run of one step is its own half."""
    steps = np.unique(groups.step)
    if len(steps) < 2:
        return np.ones(len(groups), dtype=bool)
    return groups.step >= steps[len(steps) // 2]


def count_prompts(groups: Groups, counts: Counts, *, late: bool) -> Counts:
    """Return the counts per prompt (per group where no prompt is known) over one half of the run.

    A run of one step is its own half.
    """
    chosen = late_groups(groups)
    if not late and not chosen.all():
        chosen = ~chosen
    if not groups.has_prompts:
        return Counts(counts.tries[chosen], counts.wins[chosen])
    chosen &= groups.prompt >= 0
    of_group, n = groups.prompt[chosen], len(groups.prompt_labels)
    return Counts(
        np.bincount(of_group, weights=counts.tries[chosen], minlength=n).astype(np.int64),
        np.bincount(of_group, weights=counts.wins[chosen], minlength=n).astype(np.float64),
    )


def contradictions(groups: Groups, success: NDArray[np.float64]) -> Pairs | None:
    """Return how often equal completions of a group have different success, None without texts."""
    codes = text_codes(groups)
    if codes is None or not len(groups):
        return None
    chosen = np.arange(len(groups))[:: -(-len(groups) // _PART)]
    samples = sample_index(groups.offsets, chosen)
    group, text, value = groups.group_of[samples], codes[samples], success[samples]
    known = np.isfinite(value) & (text != UNKNOWN)
    group, text, value = group[known], text[known], value[known]
    order = np.lexsort((text, group))
    group, text, value = group[order], text[order], value[order]
    equal = (group[1:] == group[:-1]) & (text[1:] == text[:-1])
    differ = equal & (np.abs(np.diff(value)) > at.RESOLVED)
    return Pairs(int(equal.sum()), int(differ.sum()))

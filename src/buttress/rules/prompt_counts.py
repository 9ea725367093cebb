"""Tries and successes per prompt, and what they foretell for other group sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.build import sample_index
from buttress.rules import thresholds as at
from buttress.rules.repeats import UNKNOWN, text_codes

_PART = 4000  # groups in which equal completions are compared
_MOST = 64  # largest group size that is looked at


class Counts(NamedTuple):
    """Scored rollouts and successes, one entry per prompt (per group where no prompt is known)."""

    tries: NDArray[np.int64]
    wins: NDArray[np.float64]


class TieCurve(NamedTuple):
    """Expected share of tied groups by group size, over prompts with enough rollouts."""

    sizes: tuple[int, ...]
    tied: tuple[float, ...]
    never: float  # share expected to be all wrong at the largest size
    always: float
    next_gain: float  # what one more doubling would free
    floor: float
    prompts: int


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


def count_prompts(groups: Groups, counts: Counts, *, late: bool) -> Counts:
    """Return the counts per prompt (per group where no prompt is known) over one half of the run.

    A run of one step is its own half.
    """
    steps = np.unique(groups.step)
    chosen = np.ones(len(groups), dtype=bool)
    if len(steps) > 1:
        chosen = (groups.step >= steps[len(steps) // 2]) == late
    if not groups.has_prompts:
        return Counts(counts.tries[chosen], counts.wins[chosen])
    chosen &= groups.prompt >= 0
    of_group, n = groups.prompt[chosen], len(groups.prompt_labels)
    return Counts(
        np.bincount(of_group, weights=counts.tries[chosen], minlength=n).astype(np.int64),
        np.bincount(of_group, weights=counts.wins[chosen], minlength=n).astype(np.float64),
    )


def tie_curve(counts: Counts) -> TieCurve | None:
    """Return the tied share at sizes 2, 4, 8, ..., None where prompts have fewer than 8 rollouts.

    ``P(tie | c of n) = [C(c, m) + C(n - c, m)] / C(n, m)``, which is unbiased for
    ``p^m + (1 - p)^m``. The largest size is one that at least half of the prompts reach.

    Examples
    --------
    >>> curve = tie_curve(Counts(np.full(4, 16), np.array([0.0, 0.0, 6.0, 6.0])))
    >>> [round(share, 2) for share in curve.tied]
    [0.75, 0.56, 0.5, 0.5]
    """
    tried = counts.tries[counts.tries > 0]
    if not len(tried):
        return None
    largest = 2 ** int(np.log2(max(min(float(np.median(tried)), _MOST), 1)))
    if largest < 8:
        return None
    chosen = counts.tries >= largest
    n, c = counts.tries[chosen].astype(np.float64), counts.wins[chosen]
    always, never = np.ones(len(n)), np.ones(len(n))
    sizes, tied = [], []
    for drawn in range(largest):
        always *= np.maximum(c - drawn, 0) / (n - drawn)
        never *= np.maximum(n - c - drawn, 0) / (n - drawn)
        if drawn + 1 >= 2 and (drawn + 1) & drawn == 0:
            sizes.append(drawn + 1)
            tied.append(float((always + never).mean()))
    gain, floor = _beyond(tied)
    return TieCurve(
        tuple(sizes), tuple(tied), float(never.mean()), float(always.mean()), gain, floor, len(n)
    )


def _beyond(tied: list[float]) -> tuple[float, float]:
    """Return what the next doubling frees and where the curve ends, by Aitken's extrapolation."""
    before, last = tied[-3] - tied[-2], tied[-2] - tied[-1]
    if last <= 0:
        return 0.0, tied[-1]
    ratio = last / before if before > 0 else 1.0
    # a curve that does not slow down has no floor in sight
    return (last * ratio, tied[-1] - last * ratio / (1 - ratio)) if ratio < 1 else (last, 0.0)


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

"""Was the log written after a filter had removed the tied groups?"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, LogFacts
from buttress.measures import GroupSummary
from buttress.rules import beta_binomial
from buttress.rules import thresholds as at


@dataclass(frozen=True, slots=True)
class FilterSigns:
    """Why a log without a single tied group looks filtered.

    Attributes
    ----------
    groups_per_step
        Smallest and largest number of groups in a step.
    missing
        Groups that the configuration, the fullest step or the group ids lead one to expect and that
        are absent.
    chance
        Probability that no group ties if nothing was filtered; NaN where it cannot be estimated.
    conclusive
        The ACR cannot be measured here.
    known
        The reader knows that the trainer filters.
    """

    groups_per_step: tuple[int, int]
    missing: int
    chance: float
    conclusive: bool
    known: bool


def signs(summary: GroupSummary, groups: Groups, facts: LogFacts) -> FilterSigns | None:
    """Return the signs of a filter, or None where a group is tied or nothing points to one.

    Conclusive is: the reader knows of a filter, or of dynamic sampling; or groups are missing and
    a log without a tie is a little odd; or chance all but excludes such a log and the histogram of
    successes is that of a filtered one.
    """
    if not summary.eligible.any():
        return None
    per_step = np.unique(groups.step, return_counts=True)[1]
    span = (int(per_step.min()), int(per_step.max()))
    if facts.filtered:
        return FilterSigns(span, 0, nan, conclusive=True, known=True)
    if summary.tied.any():
        return None
    if facts.live_groups:  # sampled until so many were mixed
        return FilterSigns(span, 0, nan, conclusive=True, known=True)
    missing = max(_short_steps(per_step, facts), _holes(groups, facts))
    counts = success_counts(summary, groups)
    chance = no_tie_probability(counts) if counts else _resampled_chance(summary, groups)
    odd = chance < (at.FILTER_ODD_CONFIGURED if facts.groups_per_step else at.FILTER_ODD)
    excluded = chance < at.FILTER_CHANCE
    # where missing groups settle it, the histogram need not be asked
    conclusive = missing > 0 and odd
    if not conclusive and counts and excluded:
        # one outcome and no other was made up, not sampled
        if len(counts.k) < 2:
            return None
        fits = beta_binomial.truncated_fit(*counts, most=at.FILTER_GROUPS)
        if fits < at.FILTER_FIT:
            return None
        conclusive = bool(np.isfinite(fits))
    if not conclusive and not excluded:
        return None
    return FilterSigns(span, missing, chance, conclusive, known=False)


class SuccessCounts(NamedTuple):
    """Distinct outcomes ``k`` successes of ``n`` rollouts, and how many groups had each."""

    k: NDArray[np.int64]
    n: NDArray[np.int64]
    times: NDArray[np.int64]


def success_counts(summary: GroupSummary, groups: Groups) -> SuccessCounts | None:
    """Return the outcomes of the eligible groups, by `correct` if it is all 0 and 1, else by a
    reward of two levels; None for anything else.
    """
    for name in ("correct", "reward"):
        values = groups.column(name)
        if values is None:
            continue
        known = np.isfinite(values) & np.isfinite(groups.rewards)
        if not known.any() or not known[np.isfinite(groups.rewards)].all():
            continue
        low, high = values[known].min(), values[known].max()
        top = known & (values == high)
        if low == high or not (top | (values == low) | ~known).all():
            continue
        wins = np.bincount(groups.group_of[top], minlength=len(groups))[summary.eligible]
        size = summary.scorable[summary.eligible]
        if name == "correct" and ((wins == 0) | (wins == size)).any():
            continue
        code, times = np.unique(wins * (int(size.max()) + 1) + size, return_counts=True)
        return SuccessCounts(*np.divmod(code, int(size.max()) + 1), times)
    return None


def no_tie_probability(counts: SuccessCounts) -> float:
    """Return how likely it is that none of these groups ties, if nothing was filtered.

    Success counts are fitted by the beta-binomial that explains them best *without* a filter, which
    favours the innocent reading; then ``P = prod_g (1 - P(k_g = 0) - P(k_g = n_g))``. Our own test.

    Examples
    --------
    >>> always_half = SuccessCounts(np.array([2]), np.array([4]), np.array([10]))
    >>> round(no_tie_probability(always_half), 2)
    0.26
    """
    a, b = beta_binomial.fit(*counts)
    tie = beta_binomial.tie_probability(counts.n, a, b)
    return float(np.exp((counts.times * np.log1p(-np.minimum(tie, 1 - 1e-12))).sum()))


def _resampled_chance(summary: GroupSummary, groups: Groups) -> float:
    """Return the chance of no tie for rewards of many levels, from each group's own levels.

    A group drawn again from its own rewards ties with probability ``sum_v (n_v / n)^n``: never for
    distinct rewards, so that a continuous reward accuses nobody.
    """
    eligible = np.flatnonzero(summary.eligible)
    every = -(-len(eligible) // (10 * at.FILTER_GROUPS))
    part = groups.select(eligible[::every])
    known = np.isfinite(part.rewards)
    group, reward = part.group_of[known], part.rewards[known]
    order = np.lexsort((reward, group))
    group, reward = group[order], reward[order]
    new = np.ones(len(group), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (reward[1:] != reward[:-1])
    starts = np.flatnonzero(new)
    same = np.diff(np.append(starts, len(group)))
    size = summary.scorable[eligible[::every]]
    share = same / size[group[starts]]
    tie = np.bincount(group[starts], weights=share ** size[group[starts]], minlength=len(part))
    return exp(every * float(np.log1p(-np.minimum(tie, 1 - 1e-12)).sum()))


def _short_steps(per_step: NDArray[np.int64], facts: LogFacts) -> int:
    expected = facts.groups_per_step or int(per_step.max())
    short = per_step < expected
    # one short step is the torn end of a file
    if not facts.groups_per_step and int(short.sum()) < at.FILTER_SHORT_STEPS:
        return 0
    return int((expected - per_step)[short].sum())


def _holes(groups: Groups, facts: LogFacts) -> int:
    """Return how many numbers a counter of groups skips; 0 where the ids are no counter."""
    ids = groups.group_id
    if facts.grouped_by in ("prompt", "position") or ids.dtype.kind not in "iu" or len(ids) < 2:
        return 0
    if len(np.unique(groups.step)) > 1:
        ids = ids[np.argsort(groups.step, kind="stable")]
    ids = ids.astype(np.int64)
    steps = np.sort(groups.step)
    first = np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
    low, high = np.minimum.reduceat(ids, first), np.maximum.reduceat(ids, first)
    # ids of a data set are drawn in any order; a counter only grows
    if not (low[1:] > high[:-1]).all():
        return 0
    holes = int(high[-1] - low[0]) + 1 - len(np.unique(ids))
    return holes if holes <= at.FILTER_HOLES * len(ids) else 0

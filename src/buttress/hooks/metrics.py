"""The numbers that a live run reports for one batch of groups."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.measures import GroupSummary, Levels, kinds
from buttress.measures.statistics import ratio

# Entries of an estimator's reading that a tracker has already under another name.
KNOWN_ELSEWHERE = frozenset(
    {"acr", "acr_after", "groups", "eligible", "tied", "samples", "reward_mean"}
)


def widened(levels: Levels, groups: Groups, tolerance: Tolerance) -> Levels:
    """Return the reward levels of the run so far, these groups included."""
    seen = Levels.of(GroupSummary.of(groups, tolerance))
    low, high = np.fmin(levels.low, seen.low), np.fmax(levels.high, seen.high)
    return Levels(float(low), float(high))


def collapse_metrics(groups: Groups, levels: Levels, tolerance: Tolerance) -> dict[str, float]:
    """Return ``acr`` and its parts ``all_wrong`` and ``all_correct``.

    All three are shares of the groups with two or more scorable samples, NaN where there is none;
    what is missing to the ACR is tied between wrong and correct.
    """
    summary = GroupSummary.of(groups, tolerance)
    kind, eligible = kinds(groups, summary, levels), int(summary.eligible.sum())
    return {
        "acr": ratio(int(summary.tied.sum()), eligible),
        "all_wrong": ratio(int((kind == 0).sum()), eligible),
        "all_correct": ratio(int((kind == 1).sum()), eligible),
    }


def acr_after(groups: Groups, advantages: NDArray[Any], tolerance: Tolerance) -> float:
    """Return the share of groups that still teach nothing: all their advantages are exactly 0.

    `advantages` has shape ``(sample,)`` or ``(sample, token)``. The denominator is that of the ACR.
    """
    eligible = GroupSummary.of(groups, tolerance).eligible
    silent = silent_groups(groups, advantages)
    return ratio(int((eligible & silent).sum()), int(eligible.sum()))


def silent_groups(groups: Groups, advantages: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the groups all of whose advantages are exactly 0 (NaN counts as 0).

    `advantages` has shape ``(sample,)`` or ``(sample, token)``.
    """
    silent = np.ones(len(groups), dtype=bool)
    if advantages.ndim == 1:
        moved = np.flatnonzero((advantages != 0) & (advantages == advantages))
    else:
        moved = np.flatnonzero(advantages.reshape(groups.n_samples, -1).any(axis=1))
    silent[groups.group_of[moved]] = False
    return silent


def reading_metrics(reading: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an estimator's reading that are news, as floats.

    Examples
    --------
    >>> reading_metrics({"acr": 0.5, "threshold": 0.4, "triggered": True, "note": "text"})
    {'threshold': 0.4, 'triggered': 1.0}
    """
    return {
        name: float(value)
        for name, value in reading.items()
        if isinstance(value, Real | np.bool_) and name not in KNOWN_ELSEWHERE
    }

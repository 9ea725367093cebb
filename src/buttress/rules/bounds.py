"""How large an advantage can be, by the estimator that the log looks like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.measures import GroupSummary, Levels
from buttress.rules import thresholds as at
from buttress.rules.logged import LoggedAdvantages


class Bounds(NamedTuple):
    """How large advantages may be; `limit` has shape ``(group,)``."""

    limit: NDArray[np.float64]
    normalised: bool
    ddof: int


def read_bounds(
    step: NDArray[np.int64],
    summary: GroupSummary,
    logged: LoggedAdvantages,
    asked: NDArray[np.bool_],
) -> Bounds:
    """Return the bound of each group, slack included.

    Where the groups in the mask have unit deviations under one ddof, it is that of a z-score.
    Elsewhere the estimator is unknown, and it is that of rewards centred by a leave-one-out mean or
    of a z-score over the whole step, whichever is larger, with a wide slack.
    """
    rms, n = logged.rms[asked], logged.count[asked]
    for ddof in (0, 1):
        deviation = rms * np.sqrt(n / (n - ddof))
        if (np.abs(deviation - 1) <= at.UNIT_PRECISION).mean() >= at.UNIT_SHARE:
            return Bounds(z_bound(logged.count, ddof) * at.BOUND_SLACK, True, ddof)
    place = np.unique(step, return_inverse=True)[1]
    in_step = np.bincount(place, weights=summary.scorable)[place]
    low, high = Levels.of(summary)
    n = logged.count
    centred = (high - low) * n / np.maximum(n - 1, 1)
    widest = np.maximum(np.maximum(centred, np.sqrt(in_step)), z_bound(n, 0))
    return Bounds(widest * at.UNKNOWN_SLACK, False, 1)


def z_bound(n: NDArray[np.int64], ddof: int) -> NDArray[np.float64]:
    """Return the largest z-score among n values: ``sqrt(n - 1)``, with ddof 1 ``(n-1)/sqrt(n)``.

    Examples
    --------
    >>> z_bound(np.array([4]), 1).tolist()
    [1.5]
    """
    n = np.maximum(n, 1)
    return (n - 1) / np.sqrt(n) if ddof else np.sqrt(n - 1)

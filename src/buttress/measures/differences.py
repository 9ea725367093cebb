"""Differences between two runs, with intervals that know that steps resemble their neighbours."""

from __future__ import annotations

from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from buttress.errors import UsageError
from buttress.measures.intervals import wilson_interval


class Difference(NamedTuple):
    """Second minus first, with an interval; NaN where there is too little to tell.

    `paired` is the number of pairs, 0 for an unpaired comparison; `p_value` belongs to the paired
    test and is NaN without one.
    """

    value: float
    low: float
    high: float
    p_value: float = nan
    paired: int = 0


def paired_difference(
    first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95
) -> Difference:
    """Compare two series step by step.

    Neighbouring steps share a policy and are not independent, so the differences are averaged in
    about ``sqrt(n)`` consecutive batches, and a t interval and test are taken over the batch
    means (the method of batch means).

    Parameters
    ----------
    first, second
        Shape ``(step,)`` in the order of the steps; pairs with a NaN are left out. Fewer than
        four pairs give NaN bounds.

    Source: A. Law, Simulation Modeling and Analysis, section 9.5 (batch means).

    Examples
    --------
    >>> found = paired_difference(np.zeros(100), np.tile([0.2, 0.4], 50))
    >>> round(found.value, 2), found.paired, found.low > 0
    (0.3, 100, True)
    """
    from scipy.stats import t

    before, after = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if before.shape != after.shape or before.ndim != 1:
        raise UsageError(
            f"paired_difference needs series of one length; got {before.shape} and {after.shape}"
        )
    apart = after - before
    apart = apart[np.isfinite(apart)]
    n = len(apart)
    if not n:
        return Difference(nan, nan, nan)
    mean = float(apart.mean())
    if n < 4:
        return Difference(mean, nan, nan, nan, n)
    size = n // int(sqrt(n))
    blocks = apart[: n - n % size].reshape(-1, size).mean(axis=1)
    error = float(blocks.std(ddof=1)) / sqrt(len(blocks))
    degrees = len(blocks) - 1
    half = float(t.ppf(0.5 + confidence / 2, degrees)) * error
    p_value = float(2 * t.sf(abs(mean) / error, degrees)) if error else float(mean == 0)
    return Difference(mean, mean - half, mean + half, p_value, n)


def rate_difference(
    first: tuple[float, float], second: tuple[float, float], *, confidence: float = 0.95
) -> Difference:
    """Compare two independent rates.

    Parameters
    ----------
    first, second
        ``(successes, trials)`` of each; without trials all is NaN. Trials may be fractional.

    Source: hybrid score interval, method 10 of R. Newcombe, Statist. Med. 17 (1998).

    Examples
    --------
    >>> found = rate_difference((48, 80), (56, 70))
    >>> round(found.value, 4), round(found.low, 4), round(found.high, 4)
    (0.2, 0.0524, 0.3339)
    """
    if not (first[1] > 0 and second[1] > 0):
        return Difference(nan, nan, nan)
    p1, p2 = first[0] / first[1], second[0] / second[1]
    low1, high1 = wilson_interval(*first, confidence=confidence)
    low2, high2 = wilson_interval(*second, confidence=confidence)
    return Difference(
        p2 - p1,
        p2 - p1 - sqrt((p2 - low2) ** 2 + (high1 - p1) ** 2),
        p2 - p1 + sqrt((high2 - p2) ** 2 + (p1 - low1) ** 2),
    )

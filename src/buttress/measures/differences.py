"""Differences between two runs, or two sets of runs, with intervals."""

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
    return _student(mean, error, len(blocks) - 1, confidence, n)


def paired_runs(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Difference:
    """Compare two sets of runs that pair, one value per run: a paired t interval and test.

    Parameters
    ----------
    first, second
        Shape ``(pair,)``; pairs with a NaN are left out. Fewer than two give NaN bounds.

    Examples
    --------
    >>> found = paired_runs([0.2, 0.5, 0.4], [0.3, 0.65, 0.5])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.paired
    (0.117, 0.045, 0.188, 3)
    """
    before, after = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if before.shape != after.shape or before.ndim != 1:
        raise UsageError(f"paired_runs needs pairs; got {before.shape} and {after.shape}")
    apart = (after - before)[np.isfinite(after - before)]
    n = len(apart)
    value = float(apart.mean()) if n else nan
    if n < 2:
        return Difference(value, nan, nan, nan, n)
    error = float(apart.std(ddof=1)) / sqrt(n)
    return _student(value, error, n - 1, confidence, n)


def run_difference(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Difference:
    """Compare two sets of independent runs, one value per run: Welch's t interval and test.

    Parameters
    ----------
    first, second
        Shape ``(run,)`` each; NaN are left out. A set of one run has no spread of its own, so that
        the bounds are NaN.

    Source: B. Welch, Biometrika 34 (1947).

    Examples
    --------
    >>> found = run_difference([0.2, 0.3, 0.4], [0.5, 0.7, 0.6, 0.8])
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2), round(found.p_value, 3)
    (0.35, 0.13, 0.57, 0.01)
    """
    sets = [np.asarray(one, dtype=np.float64) for one in (first, second)]
    a, b = (one[np.isfinite(one)] for one in sets)
    value = float(b.mean() - a.mean()) if len(a) and len(b) else nan
    if min(len(a), len(b)) < 2:
        return Difference(value, nan, nan)
    parts = [float(one.var(ddof=1)) / len(one) for one in (a, b)]
    error = sqrt(sum(parts))
    weights = [part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True)]
    degrees = sum(parts) ** 2 / sum(weights) if error else len(a) + len(b) - 2
    return _student(value, error, degrees, confidence, 0)


def _student(
    value: float, error: float, degrees: float, confidence: float, paired: int
) -> Difference:
    from scipy.stats import t

    half = float(t.ppf(0.5 + confidence / 2, degrees)) * error
    p_value = float(2 * t.sf(abs(value) / error, degrees)) if error else float(value == 0)
    return Difference(value, value - half, value + half, p_value, paired)


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

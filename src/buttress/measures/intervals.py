"""Confidence intervals for rates."""

from __future__ import annotations

from math import isfinite, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError


def wilson_interval(
    successes: float, trials: float, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson score interval of a rate, in [0, 1].

    ``trials`` may be fractional (an effective sample size) and so may ``successes``, which is why
    SciPy's integer version is not used here; the tests compare the two. No trials give NaN bounds.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927).

    Examples
    --------
    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
    _check(confidence)
    if not trials > 0 or not isfinite(trials):
        return nan, nan
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    shrink = 1 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / shrink
    half = z / shrink * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # the closed form touches 0 and 1 only up to rounding
    low = 0.0 if successes <= 0 else max(0.0, middle - half)
    high = 1.0 if successes >= trials else min(1.0, middle + half)
    return low, high


def clustered_rate_interval(
    successes: ArrayLike, trials: ArrayLike, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return a Wilson interval of ``sum(successes) / sum(trials)`` for clustered trials.

    Visits to one prompt are alike, so that many visits to few prompts tell less than their number
    says. The effective number of trials is the number over the design effect of the ratio
    estimator, the clusters being prompts, and is reduced again by ``(z / t)^2`` with k - 1 degrees
    of freedom, since k clusters give an uncertain design effect; it is never larger than the
    number itself. Clusters of one trial each give the plain Wilson interval. A rate of exactly 0
    or 1, or a single cluster, shows no spread to measure: each cluster then counts as one trial.

    Parameters
    ----------
    successes, trials
        Shape ``(cluster,)``. Clusters without trials are ignored.

    Source: L. Kish, Survey Sampling (1965), section 5.4 (ratio means of clusters); E. Korn and
    B. Graubard, Survey Methodology 24 (1998), for the degrees of freedom.

    Examples
    --------
    >>> low, high = clustered_rate_interval([9, 1, 8, 2], [10, 10, 10, 10])
    >>> round(low, 2), round(high, 2)
    (0.11, 0.89)
    >>> clustered_rate_interval([3], [0])
    (nan, nan)
    """
    _check(confidence)
    hits, tries = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    hits, tries = hits[tries > 0], tries[tries > 0]
    n, k = float(tries.sum()), len(tries)
    if not k:
        return nan, nan
    effective = _effective_trials(hits, tries, confidence)
    return wilson_interval(float(hits.sum()) / n * effective, effective, confidence=confidence)


def bounded_mean_interval(values: ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval of the mean of independent values in [0, 1].

    A Wilson interval with the number of trials of a coin whose mean would vary as much as this
    one, reduced by ``(z / t)^2`` for few values. For values of 0 and 1 alone it is the Wilson
    interval of their rate but for that; without any spread each value counts as one trial.

    Parameters
    ----------
    values
        Shape ``(value,)``. None give NaN bounds.

    Source: E. Korn and B. Graubard, Survey Methodology 24 (1998), for the effective trials.

    Examples
    --------
    >>> low, high = bounded_mean_interval([0.2, 0.4, 0.3, 0.5, 0.1] * 20)
    >>> round(low, 2), round(high, 2)
    (0.27, 0.33)
    """
    _check(confidence)
    known = np.asarray(values, dtype=np.float64)
    n = len(known)
    if not n:
        return nan, nan
    mean = min(max(float(known.mean()), 0.0), 1.0)
    spread = float(known.var(ddof=1)) if n > 1 else 0.0
    trials = float(n)
    if spread > 0 and 0 < mean < 1:
        trials = mean * (1 - mean) / (spread / n) * _few(n - 1, confidence)
    return wilson_interval(mean * trials, trials, confidence=confidence)


def _effective_trials(
    hits: NDArray[np.float64], tries: NDArray[np.float64], confidence: float
) -> float:
    n, k = float(tries.sum()), len(tries)
    rate = float(hits.sum()) / n
    if k < 2 or not 0 < rate < 1:
        return float(k)
    independent = rate * (1 - rate) / (n - 1)
    clustered = k / (k - 1) * float(((hits - rate * tries) ** 2).sum()) / n**2
    # not above 1 for clusters of one trial each, up to rounding
    design_effect = clustered / independent
    if n <= k or design_effect <= 1:
        return n
    return max(1.0, n / design_effect * _few(k - 1, confidence))


def _few(degrees: int, confidence: float) -> float:
    """Return ``(z / t)^2``: what an uncertain spread costs."""
    from scipy.special import stdtrit  # slow to import

    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return (z / float(stdtrit(degrees, 0.5 + confidence / 2))) ** 2


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1; got {confidence!r}")

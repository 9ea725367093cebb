"""Confidence intervals for rates."""

from __future__ import annotations

from math import isfinite, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike


def wilson_interval(
    successes: float, trials: float, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson score interval of a rate, in [0, 1].

    ``trials`` may be fractional (an effective sample size), which is why SciPy's integer
    version is not used here; the tests compare the two. No trials give ``(nan, nan)``.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927).

    Examples
    --------
    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 3), round(high, 3)
    (0.49, 0.943)
    """
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
    estimator, the clusters being prompts; it is never larger than the number itself.

    Parameters
    ----------
    successes, trials
        Shape ``(cluster,)``. Clusters without trials are ignored.

    Source: L. Kish, Survey Sampling (1965), section 5.4 (ratio means of clusters).
    """
    hits, tries = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    hits, tries = hits[tries > 0], tries[tries > 0]
    n, k = float(tries.sum()), len(tries)
    if not k:
        return nan, nan
    rate = float(hits.sum()) / n
    binomial = rate * (1 - rate) / n
    if k < 2 or not binomial:
        return wilson_interval(rate * n, n, confidence=confidence)
    clustered = k / (k - 1) * float(((hits - rate * tries) ** 2).sum()) / n**2
    effective = n / max(1.0, clustered / binomial)
    return wilson_interval(rate * effective, effective, confidence=confidence)

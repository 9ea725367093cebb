"""Success counts of groups whose prompts differ in difficulty, with and without a filter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Logarithms of the parameters stay within these, which reaches from a pile at 0 and 1 to one rate.
_LOG_RANGE = (-5.0, 9.0)


def log_probability(
    k: NDArray[np.int64], n: NDArray[np.int64], a: float, b: float
) -> NDArray[np.float64]:
    """Return ``log P(k) = log C(n, k) + log B(k + a, n - k + b) - log B(a, b)``.

    Examples
    --------
    >>> k = np.arange(4)
    >>> np.exp(log_probability(k, np.full(4, 3), 1.0, 1.0)).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    from scipy.special import betaln  # slow to import, and rarely needed

    choose = -betaln(n - k + 1, k + 1) - np.log(n + 1)
    return choose + betaln(k + a, n - k + b) - betaln(a, b)


def tie_probability(n: NDArray[np.int64], a: float, b: float) -> NDArray[np.float64]:
    """Return ``P(k = 0) + P(k = n)``.

    Examples
    --------
    >>> tie_probability(np.array([3]), 1.0, 1.0).round(6).tolist()
    [0.5]
    """
    none, every = np.zeros_like(n), n
    return np.exp(log_probability(none, n, a, b)) + np.exp(log_probability(every, n, a, b))


def fit(
    k: NDArray[np.int64],
    n: NDArray[np.int64],
    times: NDArray[np.int64],
    *,
    truncated: bool = False,
) -> tuple[float, float]:
    """Return the most likely ``(a, b)``.

    Parameters
    ----------
    k, n, times
        Distinct outcomes and how often each was seen.
    truncated
        Whether outcomes 0 and n were removed before anyone counted.
    """
    from scipy.optimize import minimize

    def loss(logs: NDArray[np.float64]) -> float:
        a, b = _parameters(logs)
        value = (times * log_probability(k, n, a, b)).sum()
        if truncated:
            value -= (times * _log_rest(n, a, b)).sum()
        return -float(value)

    # a filter hides which of two shapes is there, so both are tried: one rate, and two piles
    starts = [(0.0, 0.0), (2.0, 2.0), (-1.0, -1.0)] if truncated else [(0.0, 0.0)]
    found = [minimize(loss, np.array(start), method="Nelder-Mead") for start in starts]
    return _parameters(min(found, key=lambda one: one.fun).x)


def truncated_fit(
    k: NDArray[np.int64], n: NDArray[np.int64], times: NDArray[np.int64], *, most: int
) -> float:
    """Return the p value of the zero-and-full-truncated beta-binomial that fits best.

    The likelihood-ratio test against the histogram itself, ``2 sum O log(O / E)``, on groups of
    four or more: smaller ones have as many parameters as outcomes. NaN where fewer than half of
    the groups are that large.

    Parameters
    ----------
    most
        Counts beyond this many groups are scaled down to it: no model of two parameters survives
        a hundred thousand groups, and the question is whether it describes them acceptably.
    """
    from scipy.stats import chi2

    large = n >= 4
    if times[large].sum() * 2 < times.sum():
        return float(np.nan)
    k, n, times = k[large], n[large], times[large]
    a, b = fit(k, n, times, truncated=True)
    of_size = {size: float(times[n == size].sum()) for size in np.unique(n).tolist()}
    expected = np.exp(log_probability(k, n, a, b) - _log_rest(n, a, b))
    expected *= np.array([of_size[size] for size in n.tolist()])
    deviance = 2 * float((times * np.log(times / expected)).sum())
    deviance *= min(1.0, most / times.sum())
    freedom = max(1, sum(int(size) - 2 for size in of_size) - 2)
    return float(chi2.sf(max(deviance, 0.0), freedom))


def _log_rest(n: NDArray[np.int64], a: float, b: float) -> NDArray[np.float64]:
    """Return the logarithm of the probability of a mixed group."""
    return np.log1p(-np.minimum(tie_probability(n, a, b), 1 - 1e-15))


def _parameters(logs: NDArray[np.float64]) -> tuple[float, float]:
    a, b = np.exp(np.clip(logs, *_LOG_RANGE))
    return float(a), float(b)

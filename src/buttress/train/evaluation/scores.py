"""Numbers of an evaluation: means over problems with intervals, paired differences."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError
from buttress.measures import Difference, wilson_interval

RESAMPLES = 5000
_AT_ONCE = 1 << 21


class Estimate(NamedTuple):
    """A mean over problems with a 95 % interval; NaN where no problem has a value."""

    value: float
    low: float
    high: float
    problems: int


def rate(values: ArrayLike) -> Estimate:
    """Return the mean of outcomes 0 and 1 with its Wilson interval; NaN is left out.

    Examples
    --------
    >>> found = rate([1, 1, 0, np.nan])
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.problems
    (0.667, 0.208, 0.939, 3)
    """
    known = _known(values)
    successes, trials = float(known.sum()), len(known)
    low, high = wilson_interval(successes, trials)
    return Estimate(successes / trials if trials else nan, low, high, trials)


def mean(values: ArrayLike, *, seed: int = 0) -> Estimate:
    """Return the mean over problems with a percentile bootstrap interval; NaN is left out.

    Problems are what is drawn, so the interval says how far another set of such problems could
    differ. One problem, or equal values, show no spread: the interval is then a point.

    Parameters
    ----------
    values
        Shape ``(problem,)``.
    seed
        Of the resampling.

    Source: B. Efron, Ann. Statist. 7 (1979).

    Examples
    --------
    >>> found = mean([0.0, 1.0] * 50)
    >>> found.value, 0.38 < found.low < 0.42, 0.58 < found.high < 0.62
    (0.5, True, True)
    """
    known = _known(values)
    if not len(known):
        return Estimate(nan, nan, nan, 0)
    low, high = _bootstrap(known, seed)
    return Estimate(float(known.mean()), low, high, len(known))


def paired(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> Difference:
    """Return second minus first over the problems that both know, with interval and test.

    The interval is a percentile bootstrap over problems. The p-value is two-sided: of the exact
    McNemar test where all values are 0 or 1, else of a sign-flip test with 5000 random flips (the
    smallest p-value is 1/5001). No common problem gives NaN.

    Parameters
    ----------
    first, second
        Shape ``(problem,)``, in the same order.
    seed
        Of resampling and flips.

    Examples
    --------
    >>> found = paired([0, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1])
    >>> round(found.value, 3), round(found.p_value, 4), found.paired
    (0.833, 0.0625, 6)
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != two.shape or one.ndim != 1:
        raise UsageError(f"paired needs values of the same problems; got {one.shape}, {two.shape}")
    both = np.isfinite(one) & np.isfinite(two)
    one, two = one[both], two[both]
    apart = two - one
    if not len(apart):
        return Difference(nan, nan, nan)
    low, high = _bootstrap(apart, seed)
    binary = bool(np.isin(one, (0, 1)).all() and np.isin(two, (0, 1)).all())
    p_value = _mcnemar(apart) if binary else _sign_flips(apart, seed)
    return Difference(float(apart.mean()), low, high, p_value, len(apart))


def _known(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _bootstrap(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    draw, n = np.random.default_rng(seed), len(values)
    means = [values[draw.integers(n, size=(count, n))].mean(axis=1) for count in _parts(n)]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)


def _sign_flips(apart: NDArray[np.float64], seed: int) -> float:
    draw, n = np.random.default_rng([seed, 1]), len(apart)
    seen = abs(float(apart.sum())) * (1 - 1e-12)
    as_far = 0
    for count in _parts(n):
        signs = draw.integers(2, size=(count, n), dtype=np.int8) * 2.0 - 1
        as_far += int((np.abs(signs @ apart) >= seen).sum())
    return (1 + as_far) / (1 + RESAMPLES)


def _mcnemar(apart: NDArray[np.float64]) -> float:
    from scipy.stats import binomtest

    won, lost = int((apart > 0).sum()), int((apart < 0).sum())
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def _parts(n: int) -> Iterator[int]:
    """Yield the numbers of resamples that are drawn together."""
    size = max(1, _AT_ONCE // n)
    for start in range(0, RESAMPLES, size):
        yield min(size, RESAMPLES - start)

"""How likely a group that teaches something misses the rare right answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError


def active_rate(mu: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return the probability that a group of n samples is mixed.

    ``1 - mu^n - (1 - mu)^n``

    Parameters
    ----------
    mu
        Probability of a right answer, in [0, 1].
    n
        Samples per group, 1 or more; broadcast against `mu`.

    Returns
    -------
    array
        In [0, 1], 0 for n = 1 and for mu = 0 or 1; NaN where `mu` is.

    Source: arXiv 2602.06717, lemma 3.1.

    Examples
    --------
    >>> active_rate(0.5, [1, 2, 4]).tolist()
    [0.0, 0.5, 0.875]
    """
    mu, n = _checked(mu, n)
    less = np.minimum(mu, 1 - mu)
    # 1 - (1 - q)^n without cancellation
    mixed = -np.expm1(n * np.log1p(-less)) - less**n
    return np.maximum(mixed, 0.0) + 0.0


def tail_miss_rate(mu: ArrayLike, tau: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return the probability that a group is mixed and holds no rare right answer.

    ``(1 - tau)^n - (mu - tau)^n - (1 - mu)^n``: no sample is among the rare right answers, yet some
    are right and some are wrong. Such a group moves mass to the right answers that are common
    already. It is not monotone in n: small groups are rarely mixed, large ones rarely miss.

    Parameters
    ----------
    mu
        Probability of a right answer, in [0, 1].
    tau
        Probability of a rare right answer, in [0, mu].
    n
        Samples per group, 1 or more. The three are broadcast.

    Returns
    -------
    array
        In [0, 1]; `active_rate` where tau = 0, and 0 where tau = mu; NaN where an input is.

    Source: arXiv 2602.06717, lemma 3.1.

    Examples
    --------
    >>> tail_miss_rate(0.3, 0.03, [1, 2, 4, 8, 16]).round(4).tolist()
    [0.0, 0.378, 0.6399, 0.7261, 0.6109]
    """
    mu, n = _checked(mu, n)
    tau = np.asarray(tau, dtype=np.float64)
    if ((tau < 0) | (tau > mu)).any():
        raise UsageError("tau, the mass of the rare right answers, must lie in [0, mu]")
    missed = (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n
    # the three powers cancel down to rounding where there is only one answer, or one sample
    return np.maximum(missed, 0.0) + 0.0


def _checked(mu: ArrayLike, n: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mu, n = np.asarray(mu, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if ((mu < 0) | (mu > 1)).any():
        raise UsageError("mu, the probability of a right answer, must lie in [0, 1]")
    if not (n >= 1).all():
        raise UsageError("n, the samples per group, must be 1 or more")
    return mu, n

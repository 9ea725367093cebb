"""pass@k: the chance that one of k tries succeeds."""

from __future__ import annotations

from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError


def pass_at_k(successes: ArrayLike, tries: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return the unbiased estimate of pass@k per problem, shape ``(problem,)``.

    ``1 - C(n - c, k) / C(n, k)`` for c successes in n tries: the share of the k-subsets of the
    tries that hold a success. NaN where n < k: fewer tries say nothing about k.

    Source: Chen et al., arXiv 2107.03374, equation 1.

    Examples
    --------
    >>> pass_at_k([0, 1, 4, 1], [4, 4, 4, 1], 2).round(6).tolist()
    [0.0, 0.5, 1.0, nan]
    """
    if k < 1:
        raise UsageError(f"k of pass@k must be 1 or more; got {k}")
    n, c = np.broadcast_arrays(np.asarray(tries, np.float64), np.asarray(successes, np.float64))
    # where fewer than k tries failed, each k-subset holds a success
    some = n - c >= k
    log_miss = np.zeros(n.shape)
    for drawn in range(k):
        # a sum of logarithms: differences of log-factorials lose the digits of small rates
        log_miss += np.log1p(-np.where(some, c, 0.0) / np.where(some, n - drawn, 1.0))
    return np.where(n >= k, np.where(some, 0.0 - np.expm1(log_miss), 1.0), nan)

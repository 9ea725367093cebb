"""What to expect at another group size: the share of tied groups from the counts of each prompt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError
from buttress.measures.intervals import bounded_mean_interval


class Expected(NamedTuple):
    """An expected share of tied groups; NaN where no prompt tells."""

    value: float
    low: float
    high: float
    prompts: int  # how many it rests on


def tie_chances(counts: ArrayLike, size: int) -> NDArray[np.float64]:
    """Return for each prompt the chance that a group of another size would tie.

    ``h = sum_v C(n_v, m) / C(n, m)`` over the levels v of the reward: the share of the subsets of
    m of the n recorded rollouts that are all equal. It is unbiased for ``sum_v p_v^m`` (for two
    levels ``p^m + (1 - p)^m``) wherever ``n >= m``; plugging in ``p = c / n`` is not.

    Parameters
    ----------
    counts
        Shape ``(prompt, level)``: how many rollouts of the prompt had which reward. For success
        and failure two columns.
    size
        The other group size m, 1 or more.

    Returns
    -------
    array
        Shape ``(prompt,)``; NaN for a prompt with fewer than m rollouts.

    Source: the unbiased estimator of pass@k of M. Chen et al., arXiv 2107.03374, for both ends.

    Examples
    --------
    >>> tie_chances([[4, 4], [0, 8], [1, 1]], 4).round(4).tolist()
    [0.0286, 1.0, nan]
    """
    if size < 1:
        raise UsageError(f"the group size must be 1 or more; got {size!r}")
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2:
        raise UsageError(f"tie_chances needs counts of shape (prompt, level); got {table.shape}")
    total = table.sum(axis=1)
    enough = total >= size
    some, n = table[enough], total[enough, None]
    chance = np.ones_like(some)
    for drawn in range(size):
        chance *= np.maximum(some - drawn, 0) / (n - drawn)
    result = np.full(len(table), np.nan)
    result[enough] = chance.sum(axis=1)
    return result


def expected_ties(counts: ArrayLike, size: int, *, confidence: float = 0.95) -> Expected:
    """Return the mean of `tie_chances` over the prompts that have enough rollouts.

    The interval takes the prompts as a sample of those that will be trained on.

    Parameters
    ----------
    counts, size
        As for `tie_chances`.
    confidence
        Of the interval.

    Examples
    --------
    >>> expected = expected_ties([[0, 16]] * 50 + [[6, 10]] * 50, 8)
    >>> round(expected.value, 3), round(expected.low, 2), round(expected.high, 2)
    (0.502, 0.4, 0.6)
    """
    chance = tie_chances(counts, size)
    chance = chance[np.isfinite(chance)]
    value = float(chance.mean()) if len(chance) else float(np.nan)
    return Expected(value, *bounded_mean_interval(chance, confidence=confidence), len(chance))

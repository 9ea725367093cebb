"""Count, mean and variance that add up exactly over groups, steps and ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

from buttress.measures.statistics import ratio


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of a set of numbers.

    ``a + b`` are the moments of the union, by the pairwise rule
    ``M2 = M2_a + M2_b + (mean_a - mean_b)² n_a n_b / (n_a + n_b)``, which does not cancel as a sum
    of squares would. `mean` and `m2` may be arrays, of several sets that are counted alike.

    Examples
    --------
    >>> import numpy as np
    >>> Moments.of(np.array([1.0, 2.0])) + Moments.of(np.array([6.0]))
    Moments(count=3, mean=3.0, m2=14.0)
    """

    count: float
    mean: Any  # 0 while the count is 0
    m2: Any

    @classmethod
    def of(cls, values: Any, weights: Any = None) -> Moments:
        """Return the moments of a float64 array without NaN, each value counted `weights` times."""
        if not len(values):
            return cls(0, 0.0, 0.0)
        if weights is None:
            mean = float(values.sum()) / len(values)
            apart = values - mean
            return cls(len(values), mean, float((apart * apart).sum()))
        count = float(weights.sum())
        mean = float((values * weights).sum()) / count
        return cls(count, mean, float(((values - mean) ** 2 * weights).sum()))

    def __add__(self, other: Any) -> Moments:
        count = self.count + other.count
        if not count:
            return self
        gap = other.mean - self.mean
        share = other.count / count
        return Moments(
            count, self.mean + gap * share, self.m2 + other.m2 + gap * gap * self.count * share
        )

    def std(self, ddof: int) -> float:
        """Return the standard deviation; 0 below two numbers."""
        return (self.m2 / (self.count - ddof)) ** 0.5 if self.count > 1 else 0.0

    def faded(self, factor: float) -> Moments:
        """Return the same mean and deviation, counted `factor` times as much."""
        return Moments(self.count * factor, self.mean, self.m2 * factor)

    @property
    def known_mean(self) -> float:
        """The mean, NaN of no numbers."""
        return ratio(self.mean * self.count, self.count)

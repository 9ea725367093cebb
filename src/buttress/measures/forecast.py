"""What the first steps of a run foretell: its collapse rate ahead, a stall, and how it will end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError

_DRAWS = 4000
_ROUNDS = 30
# Weak priors on the level and on the change over the seen steps, in log odds: no first steps are
# evidence for a rate of exactly 0 or 1, and few are for a steep change.
_PRIOR_SPREAD = (2.5, 1.0)


class Trend(NamedTuple):
    """Possible courses of a rate over the steps seen and as many ahead; ``(draw, step)``."""

    seen: NDArray[np.float64]
    ahead: NDArray[np.float64]


def carry_on(
    tied: ArrayLike, eligible: ArrayLike, *, ahead: int | None = None, seed: int = 0
) -> Trend | None:
    """Carry the collapse rate of the first steps on, with what is uncertain about it.

    A line through the log odds of the rate over the steps, fitted by weighted least squares
    (binomial, widened by the spread of the steps around the line and by the likeness of
    neighbours), and draws from its normal approximation. A line is all that a few steps support;
    it knows nothing of what the run will meet.

    Parameters
    ----------
    tied, eligible
        Shape ``(step,)``; steps without eligible groups are left out.
    ahead
        How many steps to carry on; as many as were seen by default.

    Returns
    -------
    Trend or None
        None for fewer than three steps with groups.

    Source: P. McCullagh and J. Nelder, Generalized Linear Models (1989), section 4.5, for the
    dispersion; the weak prior and the widening for neighbours are ours.

    Examples
    --------
    >>> trend = carry_on(np.linspace(2, 30, 30).round(), np.full(30, 64))
    >>> bool(trend.ahead[:, -1].mean() > trend.seen[:, -1].mean() > trend.seen[:, 0].mean())
    True
    """
    hits, of = np.asarray(tied, dtype=np.float64), np.asarray(eligible, dtype=np.float64)
    if hits.shape != of.shape or hits.ndim != 1:
        raise UsageError(f"carry_on needs series of one length; got {hits.shape} and {of.shape}")
    n, known = len(hits), of > 0
    if known.sum() < 3:
        return None
    time = _design(np.arange(n), n)
    theta, spread = _fit(time[known], hits[known], of[known])
    draws = np.random.default_rng(seed).multivariate_normal(theta, spread, size=_DRAWS)
    further = np.arange(n, n + (n if ahead is None else ahead))
    return Trend(_rate(draws @ time.T), _rate(draws @ _design(further, n).T))


def steps_to_stall(trend: Trend, limit: float, length: int) -> NDArray[np.float64]:
    """Return after how many further steps each course has been above a limit for too long.

    Infinite where that does not happen within the steps ahead; 0 where it has happened already.

    Parameters
    ----------
    limit, length
        Stalled is: above `limit` for more than `length` consecutive steps.
    """
    above = np.concatenate([trend.seen, trend.ahead], axis=1) > limit
    place = np.arange(1, above.shape[1] + 1)
    last_below = np.maximum.accumulate(np.where(above, 0, place), axis=1)
    stalled = place - last_below > length
    first = np.where(stalled.any(axis=1), stalled.argmax(axis=1) + 1, np.inf)
    return np.maximum(first - trend.seen.shape[1], 0)


@dataclass(frozen=True, slots=True)
class OwnLine:
    """A line through a user's own finished runs: early collapse rate -> how they ended.

    Attributes
    ----------
    runs, correlation
        How many runs it was learnt from, and how well they lie on a line.
    centre, width, rest
        Mean of the early rates, sum of squares around it, deviation of the runs from the line.
    """

    intercept: float
    slope: float
    runs: int
    correlation: float
    centre: float
    width: float
    rest: float

    def predict(self, acr: float, *, confidence: float = 0.95) -> tuple[float, float, float]:
        """Return what a run of this early collapse rate ends at, with a prediction interval."""
        from scipy.special import stdtrit  # slow to import

        value = self.intercept + self.slope * acr
        error = self.rest * np.sqrt(1 + 1 / self.runs + (acr - self.centre) ** 2 / self.width)
        half = float(stdtrit(self.runs - 2, 0.5 + confidence / 2)) * float(error)
        return value, value - half, value + half


def learn_line(early: ArrayLike, final: ArrayLike) -> OwnLine | None:
    """Learn the line through finished runs; None for fewer than five, or where all are alike.

    It holds for runs like these and for no others: a line of other models or data is not portable.

    Parameters
    ----------
    early, final
        Shape ``(run,)``: collapse rate of the first steps and the mean success of the last ones;
        runs with a NaN are left out.

    Examples
    --------
    >>> line = learn_line([0.1, 0.2, 0.3, 0.4, 0.5], [0.62, 0.59, 0.49, 0.46, 0.38])
    >>> round(line.slope, 2), [round(one, 2) for one in line.predict(0.35)]
    (-0.61, [0.48, 0.41, 0.54])
    """
    x, y = np.asarray(early, dtype=np.float64), np.asarray(final, dtype=np.float64)
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 5 or np.ptp(x) == 0:
        return None
    centre, width = float(x.mean()), float(((x - x.mean()) ** 2).sum())
    slope = float(((x - centre) * (y - y.mean())).sum()) / width
    intercept = float(y.mean()) - slope * centre
    rest = float(np.sqrt(((y - intercept - slope * x) ** 2).sum() / (len(x) - 2)))
    correlation = float(np.corrcoef(x, y)[0, 1]) if np.ptp(y) > 0 else float(np.nan)
    return OwnLine(intercept, slope, len(x), correlation, centre, width, rest)


def _design(step: NDArray[np.int64], seen: int) -> NDArray[np.float64]:
    """Return level and change, the latter from -1/2 to 1/2 over the steps that were seen."""
    return np.column_stack([np.ones(len(step)), (step - (seen - 1) / 2) / max(seen - 1, 1)])


def _fit(
    design: NDArray[np.float64], hits: NDArray[np.float64], of: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    penalty = np.diag(1 / np.square(_PRIOR_SPREAD))
    theta = np.zeros(2)
    for _ in range(_ROUNDS):
        rate = _rate(design @ theta)
        weight = np.maximum(of * rate * (1 - rate), 1e-9)
        pull = design.T @ (hits - of * rate) - penalty @ theta
        step = np.linalg.solve((design * weight[:, None]).T @ design + penalty, pull)
        theta = theta + np.clip(step, -2, 2)
    rate = _rate(design @ theta)
    weight = np.maximum(of * rate * (1 - rate), 1e-9)
    rest = (hits - of * rate) / np.sqrt(weight)
    widened = max(1.0, float((rest**2).sum()) / max(len(rest) - 2, 1)) * _likeness(rest)
    spread = np.linalg.inv((design * weight[:, None]).T @ design / widened + penalty)
    return theta.astype(np.float64), spread.astype(np.float64)


def _likeness(rest: NDArray[np.float64]) -> float:
    """Return by how much neighbours that are alike widen a variance (first order)."""
    total = float((rest**2).sum())
    alike = float((rest[1:] * rest[:-1]).sum()) / total if total > 0 else 0.0
    alike = min(max(alike, 0.0), 0.9)
    return (1 + alike) / (1 - alike)


def _rate(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(odds, -30, 30)))

"""How hard the prompts are: some never solved, some always, the others spread between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError

_WALKERS, _SETTLE, _KEEP = 64, 240, 120
_RESCUE, _HOPELESS = 60, 12.0  # every so many turns, what lies this far below the best starts anew
_LARGEST = 512  # tries beyond these tell nothing more about ties
# Dirichlet prior of the shares never solved, always solved, and between: chosen by coverage.
_PRIOR = (0.25, 0.25, 1.0)
_LOG_SPREAD = (-3.0, 12.0)  # of a + b: from two piles to one rate
_STRETCH = 2.0


@dataclass(frozen=True, eq=False, slots=True)
class Difficulty:
    """Draws from what the counts leave open; arrays of shape ``(draw,)``.

    Attributes
    ----------
    never, always
        Share of the prompts with a success rate of exactly 0 and exactly 1.
    a, b
        The Beta distribution of the success rates of all others.
    """

    never: NDArray[np.float64]
    always: NDArray[np.float64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @classmethod
    def of(cls, tries: ArrayLike, wins: ArrayLike, *, seed: int = 0) -> Difficulty | None:
        """Return what counts of success say of the prompts behind them; None without any.

        The model: a share of the prompts has rate 0, a share has rate 1, the rates of the others
        are Beta, and each count is binomial. Prompts borrow from each other, which is what lets
        few rollouts speak of larger groups (shrinkage). Draws come from the posterior under weak
        priors by the affine-invariant ensemble sampler. The model is our choice; rates that lie in
        several humps are described by one.

        Parameters
        ----------
        tries, wins
            Shape ``(prompt,)``, whole numbers with ``0 <= wins <= tries``; prompts without tries
            are left out.

        Source: J. Goodman and J. Weare, Comm. App. Math. Comp. Sci. 5 (2010), for the sampler.

        Examples
        --------
        >>> found = Difficulty.of([16] * 200, [0] * 100 + [6] * 50 + [5] * 30 + [7] * 20)
        >>> low, high = found.interval(found.floor)
        >>> 0.35 < low < 0.5 < high < 0.6
        True
        """
        n, k = _whole(tries), _whole(wins)
        if n.shape != k.shape or n.ndim != 1 or (k < 0).any() or (k > n).any():
            raise UsageError("tries and wins must have one length, with 0 <= wins <= tries")
        n, k = _shortened(n[n > 0], k[n > 0])
        if not len(n):
            return None
        code, times = np.unique(k * (int(n.max()) + 1) + n, return_counts=True)
        outcomes = _Outcomes(*np.divmod(code, int(n.max()) + 1), times)
        draws = _sample(outcomes, np.random.default_rng(seed))
        shares, a, b = _parameters(draws)
        return cls(shares[:, 0], shares[:, 1], a, b)

    @property
    def floor(self) -> NDArray[np.float64]:
        """Share of the prompts that tie at every group size."""
        return self.never + self.always

    def ties(self, size: int) -> NDArray[np.float64]:
        """Return the expected share of tied groups of one size, per draw."""
        between = _log_rising(self.b, size), _log_rising(self.a, size)
        every = _log_rising(self.a + self.b, size)
        tied = np.exp(between[0] - every) + np.exp(between[1] - every)
        return self.floor + (1 - self.floor) * tied

    @staticmethod
    def interval(draws: NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float]:
        """Return the central interval of a quantity that was computed per draw."""
        low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)


@dataclass(frozen=True, eq=False, slots=True)
class _Outcomes:
    """Distinct outcomes and how many prompts had each; arrays of shape ``(outcome,)``."""

    k: NDArray[np.int64]
    n: NDArray[np.int64]
    times: NDArray[np.int64]

    def log_posterior(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the density of parameters of shape ``(point, 4)``, up to a constant."""
        shares, a, b = _parameters(points)
        most = int(self.n.max())
        rising = [_cumulative(one, most) for one in (a, b, a + b)]
        places = (self.k, self.n - self.k, self.n)
        parts = [table[:, place] for table, place in zip(rising, places, strict=True)]
        # the binomial coefficient is the same for every point but not beside the piles
        chance = np.exp(parts[0] + parts[1] - parts[2] + _log_choose(self.n, self.k))
        chance = shares[:, 2:] * chance
        chance += shares[:, :1] * (self.k == 0) + shares[:, 1:2] * (self.k == self.n)
        # no outcome is impossible, however badly a point describes it
        fit = (self.times * np.log(np.maximum(chance, 1e-300))).sum(axis=1)
        mean, spread = a / (a + b), points[:, 3]
        prior = (np.log(shares) * _PRIOR).sum(axis=1) + np.log(mean) + np.log1p(-mean)
        inside = (spread > _LOG_SPREAD[0]) & (spread < _LOG_SPREAD[1])
        return np.where(inside, fit + prior, -np.inf)


def _parameters(
    points: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the three shares and the Beta parameters of points on the whole line."""
    points = np.clip(points, -30, 30)
    raised = np.exp(np.column_stack([points[:, :2], np.zeros(len(points))]))
    shares = np.maximum(raised / raised.sum(axis=1, keepdims=True), 1e-12)
    mean = np.clip(1 / (1 + np.exp(-points[:, 2])), 1e-9, 1 - 1e-9)
    spread = np.exp(points[:, 3])
    return shares, mean * spread, (1 - mean) * spread


def _sample(outcomes: _Outcomes, rng: np.random.Generator) -> NDArray[np.float64]:
    low, high = np.array([[-6, -6, -4, -1], [2, 2, 4, 6]], dtype=np.float64)
    start = low + (high - low) * rng.random((8 * _WALKERS, 4))
    best = np.argsort(-outcomes.log_posterior(start), kind="stable")[: _WALKERS // 2]
    walkers = np.concatenate([start[best], start[best] + rng.normal(0, 0.1, (len(best), 4))])
    walkers = walkers[rng.permutation(_WALKERS)]
    density = outcomes.log_posterior(walkers)
    half, kept = _WALKERS // 2, []
    for turn in range(_SETTLE + _KEEP):
        for mine in (slice(0, half), slice(half, None)):
            others = walkers[slice(half, None) if mine.start == 0 else slice(0, half)]
            partner = others[rng.integers(half, size=half)]
            stretch = (1 + (_STRETCH - 1) * rng.random(half)) ** 2 / _STRETCH
            moved = partner + stretch[:, None] * (walkers[mine] - partner)
            there = outcomes.log_posterior(moved)
            gain = 3 * np.log(stretch) + there - density[mine]
            taken = np.log(rng.random(half)) < gain
            walkers[mine][taken] = moved[taken]
            density[mine][taken] = there[taken]
        if turn < _SETTLE and turn % _RESCUE == _RESCUE - 1:
            _rescue(walkers, density, rng)
        if turn >= _SETTLE and turn % 4 == 0:
            kept.append(walkers.copy())
    return np.concatenate(kept)


def _rescue(
    walkers: NDArray[np.float64], density: NDArray[np.float64], rng: np.random.Generator
) -> None:
    """Put walkers that are caught in a far worse corner where the others are."""
    lost = density < density.max() - _HOPELESS
    found = rng.choice(np.flatnonzero(~lost), size=int(lost.sum()))
    walkers[lost], density[lost] = walkers[found], density[found]


def _cumulative(first: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return ``log (x)(x + 1)...(x + i - 1)`` for i from 0 to `most`; shape ``(x, i)``."""
    table = np.zeros((len(first), most + 1))
    np.cumsum(np.log(first[:, None] + np.arange(most)), axis=1, out=table[:, 1:])
    return table


def _log_rising(first: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.log(first[:, None] + np.arange(size)).sum(axis=1)


def _log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, int(n.max()) + 1)))))
    return logs[n] - logs[k] - logs[n - k]


def _shortened(
    n: NDArray[np.int64], k: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Scale long counts down, without making a rate of 0 or 1 of another."""
    long = n > _LARGEST
    scaled = np.rint(k * (_LARGEST / np.maximum(n, 1))).astype(np.int64)
    scaled = np.where((k > 0) & (k < n), np.clip(scaled, 1, _LARGEST - 1), scaled)
    return np.where(long, _LARGEST, n), np.where(long, scaled, k)


def _whole(values: ArrayLike) -> NDArray[np.int64]:
    return np.asarray(values).astype(np.int64)

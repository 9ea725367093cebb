"""The advantages that the trainer logged, group by group, and what kind of estimator made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.measures import GroupSummary
from buttress.rules import thresholds as at

FLAT_SCALES = ("none", "ddof 0", "ddof 1")


@dataclass(frozen=True, eq=False, slots=True)
class LoggedAdvantages:
    """Statistics over the scorable rollouts of each group; arrays of shape ``(group,)``, NaN
    where a group has no logged advantage.
    """

    count: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    rms: NDArray[np.float64]

    @classmethod
    def of(cls, groups: Groups) -> LoggedAdvantages | None:
        """Return the statistics, or None where no advantage is logged."""
        values = groups.column("advantage")
        if values is None or not len(groups):
            return None
        # a rollout without a reward has no say in its group
        known = np.isfinite(values) & np.isfinite(groups.rewards)
        if not known.any():
            return None
        filled = groups.sizes > 0
        starts = groups.offsets[:-1][filled]

        def per_group(ufunc: np.ufunc, samples: NDArray[np.generic], default: float) -> NDArray:
            result = np.full(len(groups), default)
            result[filled] = ufunc.reduceat(samples, starts)
            return result

        complete = bool(known.all())
        zeroed = values if complete else np.where(known, values, 0.0)
        count = groups.sizes if complete else per_group(np.add, known.astype(np.int64), 0)
        empty = count == 0
        some = np.where(empty, np.nan, count)
        low = per_group(np.minimum, values if complete else np.where(known, values, np.inf), np.nan)
        high = per_group(
            np.maximum, values if complete else np.where(known, values, -np.inf), np.nan
        )
        low[empty] = high[empty] = np.nan
        mean = per_group(np.add, zeroed, 0.0) / some
        rms = np.sqrt(per_group(np.add, zeroed * zeroed, 0.0) / some)
        return cls(count.astype(np.int64), low, high, mean, rms)

    @property
    def size(self) -> NDArray[np.float64]:
        """Largest magnitude in each group."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """Advantages that compare every rollout with its whole step instead of its group."""

    groups: int  # groups that prove it
    share: float  # of the groups that could
    scale: str  # which of FLAT_SCALES
    largest: float  # largest magnitude in a tied group, NaN without one
    uneven: bool  # the groups of the run differ in size
    steps: tuple[int, int]


def flat_batch(groups: Groups, summary: GroupSummary, logged: LoggedAdvantages) -> FlatBatch | None:
    """Return the proof that advantages were computed over the flat batch, or None.

    Under every group baseline the advantages of a group average to zero. Under a flat one they
    average to ``(m_g - m) / s`` with the mean m and the deviation s (or 1) of the step. Tied groups
    are asked first: they show the same value in every rollout.
    """
    if not (np.abs(logged.mean) > at.FLAT_VISIBLE * (1 - at.FLAT_PRECISION)).any():
        return None
    step, place = np.unique(groups.step, return_inverse=True)
    n, mean, deviation = _step_moments(groups, place, len(step))
    centre = _group_means(groups, summary) - mean[place]
    phantom = summary.tied & (logged.size > at.PHANTOM_NOISE)
    for asked in (phantom, summary.eligible):
        best = max(
            (*_agreement(logged, centre, scale, asked), name)
            for name, scale in zip(
                FLAT_SCALES,
                (1.0, deviation[place], (deviation * np.sqrt(n / np.maximum(n - 1, 1)))[place]),
                strict=True,
            )
        )
        share, proving, _, name = best
        if proving and share >= at.AGREE:
            span = groups.step[asked]
            return FlatBatch(
                proving,
                share,
                name,
                float(np.nanmax(logged.size[phantom])) if phantom.any() else float(np.nan),
                bool(np.ptp(summary.scorable[summary.eligible]) > 0),
                (int(span.min()), int(span.max())),
            )
    return None


def _agreement(
    logged: LoggedAdvantages,
    centre: NDArray[np.float64],
    scale: NDArray[np.float64] | float,
    asked: NDArray[np.bool_],
) -> tuple[float, int, float]:
    """Return the share of the telling groups that agree, their number, and how closely (less is
    worse, so that the larger tuple is the better hypothesis).
    """
    flat = centre / scale
    telling = (
        asked & np.isfinite(flat) & np.isfinite(logged.mean) & (np.abs(flat) > at.FLAT_VISIBLE)
    )
    n = int(telling.sum())
    if not n:
        return 0.0, 0, 0.0
    apart = np.abs(logged.mean[telling] / flat[telling] - 1)
    agree = int((apart <= at.FLAT_PRECISION).sum())
    return agree / n, agree, -float(np.median(apart))


def _group_means(groups: Groups, summary: GroupSummary) -> NDArray[np.float64]:
    scorable = np.isfinite(groups.rewards)
    total = np.bincount(
        groups.group_of[scorable], weights=groups.rewards[scorable], minlength=len(groups)
    )
    return total / np.where(summary.scorable > 0, summary.scorable, np.nan)


def _step_moments(
    groups: Groups, place: NDArray[np.int64], n_steps: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return count, mean and population deviation of the rewards of each step."""
    scorable = np.isfinite(groups.rewards)
    of_sample, rewards = place[groups.group_of[scorable]], groups.rewards[scorable]
    n = np.bincount(of_sample, minlength=n_steps)
    some = np.where(n > 0, n, np.nan)
    mean = np.bincount(of_sample, weights=rewards, minlength=n_steps) / some
    squares = np.bincount(of_sample, weights=(rewards - mean[of_sample]) ** 2, minlength=n_steps)
    return n, mean, np.sqrt(squares / some)


def rounds(value: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return where the float32 mean of `size` copies of a value may not be the value itself.

    It is exact where the mantissa leaves room for the sum: 24 bits less the bits of the size. So
    0, 1, -1, 0.5 and 5 never round, 0.1, 0.7 and 2.1 do.
    """
    single = value.astype(np.float32)
    mantissa = np.frexp(single)[0].astype(np.float64)
    room = 24 - np.ceil(np.log2(np.maximum(size, 1)))
    scaled = np.ldexp(mantissa, room.astype(np.int64))
    return scaled != np.floor(scaled)

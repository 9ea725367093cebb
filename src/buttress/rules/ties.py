"""What an estimator did to tied groups: nothing, rounding noise, a signal by design, nonsense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.measures import KINDS, GroupSummary
from buttress.rules import thresholds as at
from buttress.rules.logged import LoggedAdvantages, rounds

# The sign that a signal by design has: against wrong answers, for right ones.
_SIGN = np.array([-1, 1, 0])
assert KINDS == ("all_wrong", "all_correct", "tied_between")


@dataclass(frozen=True, eq=False, slots=True)
class Ties:
    """Advantages of tied groups; arrays of shape ``(group,)``.

    Attributes
    ----------
    phantom
        Tied groups with an advantage above the noise of an unnormalised baseline.
    size
        Largest magnitude of the logged advantages.
    rounds
        Groups in which rounding may have produced it.
    by_design
        An estimator that acts on tied groups.
    foreign
        Advantages that cannot belong to these rewards.
    """

    phantom: NDArray[np.bool_]
    size: NDArray[np.float64]
    rounds: NDArray[np.bool_]
    by_design: bool
    foreign: bool


def read_ties(
    step: NDArray[np.int64],
    summary: GroupSummary,
    kinds: NDArray[np.int64],
    logged: LoggedAdvantages,
) -> Ties:
    """Return what the logged advantages of tied groups look like."""
    size = logged.size
    phantom = summary.tied & (size > at.PHANTOM_NOISE)
    noisy = summary.tied & ((summary.high > summary.low) | rounds(summary.low, summary.scorable))
    exact = phantom & ~noisy
    sign = np.sign(logged.mean)
    one_sign = (logged.low > 0) | (logged.high < 0)
    wanted = np.where(kinds >= 0, _SIGN[np.maximum(kinds, 0)], 0)
    meant = one_sign & ((wanted == 0) | (sign == wanted))
    if exact.any():
        by_design = bool(meant[exact].mean() >= at.AGREE)
        by_design |= _one_shift(step, summary.low, logged, exact)
        return Ties(phantom, size, noisy, by_design, not by_design)
    sizeable = phantom.any() and float(np.median(size[phantom])) >= at.PHANTOM_STEERS
    of_kind = [phantom & (kinds == kind) for kind in (0, 1)]
    # each kind must have its sign: one of the two may be rare
    by_kind = all(bool(one.any() and meant[one].mean() >= at.AGREE) for one in of_kind)
    of_one = bool(sizeable) and one_sign[phantom].mean() >= at.AGREE
    free = of_one and _no_rounding(summary.low[phantom], size[phantom], summary.scorable[phantom])
    return Ties(phantom, size, noisy, (bool(sizeable) and by_kind) or free, False)


def _no_rounding(
    reward: NDArray[np.float64], size: NDArray[np.float64], n: NDArray[np.int64]
) -> bool:
    """Return whether rounding does not give such advantages to such rewards.

    It errs by one or two units in the last place, over eps; it gives each value its own advantage,
    always the same up to a few kernels. An estimator gives different values the same one, or one
    value many. With a vanishing eps the error d is divided by its own deviation,
    ``d / (d sqrt(n / (n - 1)))``, which is the same for every value.
    """
    own = np.sqrt((n - 1) / n)
    if ((size <= own) & (size >= own * (1 - at.ROUNDED_SLACK))).mean() >= at.AGREE:
        return False
    most = 4 * np.spacing(np.abs(reward).astype(np.float32)) / at.COMMON_EPS
    if ((size > most) & (size <= at.LARGEST_MEANT)).mean() >= at.AGREE:
        return True
    value, place, times = np.unique(reward, return_inverse=True, return_counts=True)
    mean = np.bincount(place, weights=size) / times
    if len(value) > 1 and np.ptp(mean) <= at.FLAT_PRECISION * mean.max():
        return True
    largest = size[place == int(times.argmax())]
    return len(np.unique(largest.round(6))) > at.KERNELS


def _one_shift(
    step: NDArray[np.int64],
    reward: NDArray[np.float64],
    logged: LoggedAdvantages,
    asked: NDArray[np.bool_],
) -> bool:
    """Return whether all these groups of a step have one and the same value: batch whitening.

    It is one value whatever the reward, or a small one.
    """
    value = logged.mean[asked]
    constant = (logged.high - logged.low)[asked] <= at.FLAT_PRECISION * np.abs(value)
    _, place, times = np.unique(step[asked], return_inverse=True, return_counts=True)
    mean = np.bincount(place, weights=value) / times
    same = constant & (np.abs(value - mean[place]) <= at.FLAT_PRECISION * np.abs(mean[place]))
    several = times[place] > 1
    if not several.any() or same[several].mean() < at.AGREE:
        return False
    level = np.bincount(place, weights=reward[asked]) / times
    varied = bool((np.abs(reward[asked] - level[place]) > at.PHANTOM_NOISE).any())
    return varied or float(np.abs(value).max()) <= at.SHIFT_SMALL

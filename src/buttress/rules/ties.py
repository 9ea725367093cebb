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
    # rounding gives one sign to one value; only kinds with opposite signs show an intention
    both = {int(kind) for kind in np.unique(kinds[phantom])} >= {0, 1}
    sizeable = phantom.any() and float(np.median(size[phantom])) >= at.PHANTOM_STEERS
    by_design = bool(both and sizeable and meant[phantom].mean() >= at.AGREE)
    return Ties(phantom, size, noisy, by_design, False)


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

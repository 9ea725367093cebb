"""The scalars of a run beside its groups: which log lines speak of steps with a signal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Scalar
from buttress.rules import thresholds as at
from buttress.rules.case import Case

ZERO_STD = "frac_reward_zero_std"


class Lines(NamedTuple):
    """Log lines of a scalar; masks of shape ``(line,)`` say what is known of their steps."""

    scalar: Scalar
    live: NDArray[np.bool_]  # some group is mixed
    dead: NDArray[np.bool_]  # every group is tied


def lines_of(case: Case, name: str) -> Lines | None:
    """Return the lines of a scalar, None where it was not logged or the groups are not sound.

    A line speaks for the groups of its own step; without rollouts, for what the trainer logged in
    the same line.
    """
    found = case.run.scalar(name)
    if found is None:
        return None
    if len(case.groups):
        if not case.grouped:
            return None
        table = case.steps
        place = np.minimum(np.searchsorted(table.step, found.step), len(table.step) - 1)
        here = table.step[place] == found.step
        mixed, eligible = table.mixed[place], table.eligible[place]
        return Lines(found, here & (mixed > 0), here & (mixed == 0) & (eligible > 0))
    dead = _at(case.run.scalar(ZERO_STD), found.step)
    spread = _at(case.run.scalar("reward_std"), found.step)
    return Lines(found, (dead < 1) & (spread > at.GRAD_ZERO), dead >= 1)


def _at(scalar: Scalar | None, step: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the values of a scalar at these steps, NaN where it has none."""
    if scalar is None or not len(scalar.step):
        return np.full(len(step), np.nan)
    place = np.minimum(np.searchsorted(scalar.step, step), len(scalar.step) - 1)
    return np.where(scalar.step[place] == step, scalar.value[place], np.nan)

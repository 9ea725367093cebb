"""The course of the run: one row per training step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.composition import KINDS, Levels, kinds
from buttress.measures.summary import GroupSummary


class StepTable(NamedTuple):
    """One row per step in ascending order, arrays of shape ``(step,)``."""

    step: NDArray[np.int64]
    acr: NDArray[np.float64]  # NaN where no group is eligible
    all_wrong: NDArray[np.int64]
    all_correct: NDArray[np.int64]
    tied_between: NDArray[np.int64]
    mixed: NDArray[np.int64]
    reward_mean: NDArray[np.float64]

    @property
    def eligible(self) -> NDArray[np.int64]:
        """Groups per step that can tie."""
        return self.all_wrong + self.all_correct + self.tied_between + self.mixed


def by_step(
    groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE, levels: Levels | None = None
) -> StepTable:
    """Return the composition of each training step.

    Parameters
    ----------
    levels
        The lowest and highest reward of the run where it is longer than these groups.

    Examples
    --------
    >>> table = by_step(Groups.from_nested([[1, 1], [0, 1], [0, 0]], step=[1, 1, 2]))
    >>> table.step.tolist(), table.acr.tolist(), table.all_wrong.tolist()
    ([1, 2], [0.5, 1.0], [0, 1])
    """
    summary = GroupSummary.of(groups, tolerance)
    kind = kinds(groups, summary, levels)
    steps, place = np.unique(groups.step, return_inverse=True)
    by_kind = [np.bincount(place[kind == code], minlength=len(steps)) for code in range(len(KINDS))]
    mixed = np.bincount(place[summary.mixed], minlength=len(steps))
    tied = sum(by_kind)
    scorable = np.isfinite(groups.rewards)
    of_sample = place[groups.group_of[scorable]]
    count = np.bincount(of_sample, minlength=len(steps))
    total = np.bincount(of_sample, weights=groups.rewards[scorable], minlength=len(steps))
    with np.errstate(invalid="ignore"):
        return StepTable(steps, tied / (tied + mixed), *by_kind, mixed, total / count)

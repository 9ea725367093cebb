"""The course of the run: one row per training step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.groups.identity import codes_of
from buttress.measures.levels import KINDS, Levels, kinds
from buttress.measures.segments import sum_in_groups
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

    def select(self, rows: NDArray[np.int64]) -> StepTable:
        """Return the rows that an index names."""
        return StepTable(
            self.step[rows],
            self.acr[rows],
            self.all_wrong[rows],
            self.all_correct[rows],
            self.tied_between[rows],
            self.mixed[rows],
            self.reward_mean[rows],
        )


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
    kind[summary.mixed] = len(KINDS)
    code, labels = codes_of(groups.step)
    ascending = np.argsort(labels)
    steps, n_steps = labels[ascending], len(labels)
    place = np.argsort(ascending)[code]
    # one column for groups of no kind, one per kind, one for mixed groups
    width = len(KINDS) + 2
    counts = np.bincount(place * width + kind + 1, minlength=n_steps * width)
    wrong, right, between, mixed = counts.reshape(-1, width).T[1:]
    tied = wrong + right + between
    scorable, totals = sum_in_groups(groups.rewards, groups)
    scored = np.bincount(place, weights=scorable, minlength=n_steps)
    reward = np.bincount(place, weights=totals, minlength=n_steps)
    with np.errstate(invalid="ignore", over="ignore"):
        acr, mean = tied / (tied + mixed), reward / scored
    return StepTable(steps, acr, wrong, right, between, mixed, mean)

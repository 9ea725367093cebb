"""The ACR over the run: smoothed, its spells above the line, and whether it ends in mastery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.measures import StepTable, wilson_interval
from buttress.rules import thresholds as at


class Spell(NamedTuple):
    """A stretch of steps whose smoothed ACR lies above the line."""

    first: int
    last: int
    length: int  # in training steps, also where only every n-th step is logged
    tied: float
    eligible: float

    @property
    def acr(self) -> float:
        """The ACR within the stretch."""
        return self.tied / self.eligible


@dataclass(frozen=True, slots=True)
class Course:
    """How the collapse rate went.

    Attributes
    ----------
    spells
        All stretches above the line at `thresholds.ACR_STALLED`, in order.
    ends_above
        The last of them reaches the end of the run.
    mastered
        The tied groups of the last third are all correct and the reward rose to get there.
    fallen
        The stretch at the end in which nearly every group is tied and not solved, where the steps
        before it were alive; a run that fell has not mastered anything.
    """

    spells: tuple[Spell, ...]
    ends_above: bool
    mastered: bool
    fallen: Spell | None = None

    @property
    def longest(self) -> Spell | None:
        """The longest stretch above the line."""
        return max(self.spells, key=lambda spell: spell.length, default=None)

    @property
    def stalled(self) -> bool:
        """Above the line for more steps than a run recovers from, and not recovered."""
        longest = self.longest
        return longest is not None and longest.length > at.STALLED_STEPS and self.ends_above

    @property
    def late(self) -> Spell | None:
        """The stretch that reaches the end, if it holds enough groups to be no accident."""
        if not self.ends_above or not self.spells:
            return None
        spell = self.spells[-1]
        sure = wilson_interval(spell.tied, spell.eligible)[0] > at.ACR_STALLED
        return spell if sure and spell.eligible >= at.LATE_GROUPS else None


def trace_course(table: StepTable, scale: float, *, may_fall: bool = True) -> Course:
    """Return the course of a run from its steps and the scale of its rewards.

    Parameters
    ----------
    may_fall
        Whether a dead end can be a fall; not where its prompts were dead before.
    """
    tied = table.all_wrong + table.all_correct + table.tied_between
    found, ends_above = spells(table.step, tied, table.eligible, at.SMOOTH_GROUPS)
    fallen = _fallen(table) if may_fall else None
    return Course(found, ends_above, fallen is None and _mastered(table, scale), fallen)


def _fallen(table: StepTable) -> Spell | None:
    """Return the dead stretch at the end of a run that was alive before, None where there is none.

    It begins after the last step in which half of the groups are not dead. Both it and as many
    steps before it (at least a tenth of the run) must hold enough groups to be no accident.
    """
    dead, eligible = table.all_wrong + table.tied_between, table.eligible
    alive = np.flatnonzero((dead < 0.5 * eligible) & (eligible > 0))
    if not len(alive) or alive[-1] == len(dead) - 1:
        return None
    end = slice(int(alive[-1]) + 1, None)
    n = len(dead) - end.start
    before = slice(max(0, end.start - max(n, len(dead) // at.START)), end.start)
    gone, of = float(dead[end].sum()), float(eligible[end].sum())
    was, of_was = float(dead[before].sum()), float(eligible[before].sum())
    if min(of, of_was) < at.LATE_GROUPS or gone < at.ACR_DEAD * of:
        return None
    # alive before: surely below the line at which training stalls
    if not wilson_interval(was, of_was)[1] < at.ACR_STALLED + at.FALL_SLACK:
        return None
    return Spell(int(table.step[end][0]), int(table.step[-1]), n, gone, of)


def spells(
    step: NDArray[np.int64],
    tied: NDArray[np.int64] | NDArray[np.float64],
    eligible: NDArray[np.int64] | NDArray[np.float64],
    smooth: float = 0,
) -> tuple[tuple[Spell, ...], bool]:
    """Return the stretches above the line, and whether the last one reaches the end.

    Parameters
    ----------
    step, tied, eligible
        One entry per logged step, in ascending order.
    smooth
        Number of groups that the moving average should hold; 0 for none.
    """
    n = len(step)
    if not n:
        return (), False
    usual = float(np.median(eligible[eligible > 0])) if (eligible > 0).any() else 1.0
    width = int(np.clip(np.ceil(smooth / usual), 1, n))
    above = _moving_sum(tied, width) > at.ACR_STALLED * np.maximum(_moving_sum(eligible, width), 1)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], above, [False])).astype(np.int8)))
    stride = int(np.median(np.diff(step))) if n > 1 else 1
    found = tuple(
        Spell(
            int(step[first]),
            int(step[end - 1]),
            int(step[end - 1] - step[first]) + stride,
            float(tied[first:end].sum()),
            float(eligible[first:end].sum()),
        )
        for first, end in edges.reshape(-1, 2)
        if eligible[first:end].sum() > 0
    )
    return found, bool(above[-1]) and bool(found)


def _moving_sum(values: NDArray[np.generic], width: int) -> NDArray[np.float64]:
    """Return centred sums over windows of full width; those at the ends are moved inwards."""
    total = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    first = np.clip(np.arange(len(values)) - width // 2, 0, len(values) - width)
    return total[first + width] - total[first]


def _mastered(table: StepTable, scale: float) -> bool:
    n = len(table.step)
    third = n // 3
    if n < at.THIRDS:
        return False
    late = slice(n - third, n)
    right = table.all_correct[late].sum()
    dead = (table.all_wrong + table.tied_between)[late].sum()
    eligible = table.eligible[late].sum()
    only_right = right >= at.MASTERED_KIND * (right + dead) and dead <= at.ACR_STALLED * eligible
    # the start is short: a run may spend most of its steps on what it has mastered
    enough = int(np.searchsorted(np.cumsum(table.eligible), at.LATE_GROUPS)) + 1
    start = min(max(n // at.START, enough), third)
    rise = _mean(table.reward_mean[late]) - _mean(table.reward_mean[:start])
    return bool(right > 0 and only_right and rise >= at.RISE * scale)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float(np.nan)

"""What the rewards beside correctness do: move groups that it ties, or lift them as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.measures import GroupSummary, Levels
from buttress.rules import thresholds as at
from buttress.rules.correctness import Correctness, format_like, is_component, task_like


@dataclass(frozen=True, eq=False, slots=True)
class Shaping:
    """Masks of shape ``(group,)``.

    Attributes
    ----------
    moved
        Groups that are tied on correctness while their reward varies.
    partial_credit
        What moves them looks like partial credit for the task, not like shaping.
    movers
        Components that vary in at least half of the moved groups.
    lifted
        Groups tied above zero, all at one level, in a run in which (nearly) nothing is solved.
    lifted_by
        The components that are constant and not zero.
    dead
        The column that is zero throughout the lifted groups.
    """

    moved: NDArray[np.bool_]
    partial_credit: bool
    movers: tuple[str, ...]
    lifted: NDArray[np.bool_]
    lifted_by: tuple[str, ...]
    dead: str | None


def read_shaping(
    groups: Groups,
    components: Mapping[str, GroupSummary],
    correctness: Correctness | None,
    success: NDArray[np.float64],
) -> Shaping:
    """Return what the rewards beside correctness do."""
    total = components["reward"]
    nothing = np.zeros(len(groups), dtype=bool)
    dead = correctness.column if correctness else _unnamed_dead(components)
    wrong = correctness.wrong if correctness else (_at_zero(components[dead]) if dead else nothing)
    others = [name for name in components if is_component(name) and name != dead]
    constant = tuple(name for name in others if _constant_at_top(components[name]))
    lifted = total.tied & wrong & (total.low > total.tolerance.atol)
    # where correctness lives in other groups, these are plain all-wrong groups with a bonus
    judged = components[dead].eligible if dead else nothing
    if wrong.sum() < at.COMPONENT_DEAD * judged.sum() or not _one_level(total.low[lifted]):
        lifted = nothing
    if correctness is None:
        return Shaping(nothing, False, (), lifted, constant, dead)
    moved = correctness.tied & total.mixed
    n = max(int(moved.sum()), 1)
    movers = tuple(o for o in others if (components[o].mixed & moved).sum() * 2 >= n)
    credit = any(task_like(name) for name in movers)
    if not others and moved.any():
        credit = _looks_like_credit(groups, correctness, moved, success)
    return Shaping(moved, credit, movers, lifted, constant, dead)


def _looks_like_credit(
    groups: Groups,
    correctness: Correctness,
    moved: NDArray[np.bool_],
    success: NDArray[np.float64],
) -> bool:
    """Return whether unsolved rollouts earn parts of one and the same full reward.

    Shaping by format or length also moves the rewards of solved rollouts, and a bonus is small;
    credit for parts of the task leaves solved rollouts at the top and comes near it (our reading).
    """
    if correctness.summary.mixed.sum() < at.ALIVE * max(correctness.eligible.sum(), 1):
        return False
    rewards = groups.rewards
    solved = rewards[(success >= 1 - correctness.summary.tolerance.atol) & np.isfinite(rewards)]
    if not len(solved):
        return False
    full = float(np.median(solved))
    near = np.abs(solved - full) <= correctness.summary.tolerance.resolution * abs(full)
    parts = rewards[(moved & ~correctness.right)[groups.group_of]]
    parts = parts[np.isfinite(parts)]
    if not len(parts) or near.mean() < at.CONSTANT:
        return False
    low = float(np.nanmin(rewards))
    return bool(low + at.CREDIT_REACHES * (full - low) <= parts.max() < full)


def _unnamed_dead(components: Mapping[str, GroupSummary]) -> str | None:
    """Return the component that is zero throughout, where no name tells which is correctness.

    A penalty that nobody earned is zero too, so names of formats and penalties do not count.
    """
    zero = [
        name
        for name, one in components.items()
        if is_component(name)
        and not format_like(name)
        and _share(_at_zero(one), one) >= at.CONSTANT
    ]
    return zero[0] if zero else None


def _at_zero(one: GroupSummary) -> NDArray[np.bool_]:
    return one.tied & (np.abs(one.high) <= one.tolerance.atol)


def _constant_at_top(one: GroupSummary) -> bool:
    top = Levels.of(one).high
    at_top = one.tied & (one.low >= top - one.tolerance.atol)
    return top > one.tolerance.atol and _share(at_top, one) >= at.CONSTANT


def _share(mask: NDArray[np.bool_], one: GroupSummary) -> float:
    eligible = int(one.eligible.sum())
    return float((mask & one.eligible).sum()) / eligible if eligible else 0.0


def _one_level(values: NDArray[np.float64]) -> bool:
    if not len(values):
        return False
    times = np.unique(values, return_counts=True)[1]
    return bool(times.max() >= at.SAME_LEVEL * len(values))

"""Expected collapse, cost and effective batch of other group sizes, from per-prompt counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.measures.difficulty import Difficulty
from buttress.measures.expectation import Expected, expected_ties

SIZES = (2, 4, 8, 16, 32, 64)
_LARGEST = 4096
_REACH = 0.5  # share of the prompts that must have as many rollouts as a size


class SizeRow(NamedTuple):
    """What to expect at one group size; NaN where unknown.

    `method` is ``counts`` (unbiased, from prompts with enough rollouts), ``model`` (beyond them)
    or None. `cost` is the rollouts that one mixed group takes. The rest is per step of the budget.
    """

    size: int
    method: Literal["counts", "model"] | None
    acr: Expected
    cost: tuple[float, float, float]
    prompts: int  # that fit into the budget
    mixed: float  # groups
    effective: float  # rollouts in mixed groups


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """Rows by group size, the floor under the collapse rate, and the size that is worth it.

    Attributes
    ----------
    difficulty
        The model behind sizes beyond the rollouts at hand; None for rewards of several levels.
    floor
        Share of the prompts that tie at every size, with its interval; NaN without the model.
    best
        The smallest size whose effective batch is within `gain` of the budget of the largest
        effective batch; None where the budget holds no group.
    """

    rows: tuple[SizeRow, ...]
    budget: float
    difficulty: Difficulty | None
    floor: Expected
    best: int | None

    @classmethod
    def of(
        cls,
        counts: NDArray[np.int64],
        *,
        budget: float,
        sizes: Sequence[int] = SIZES,
        gain: float = 0.05,
    ) -> GroupSizes:
        """Return what to expect at each size.

        Parameters
        ----------
        counts
            Shape ``(prompt, level)``: rollouts of the prompt by level of the reward; two columns
            for failure and success. Prompts without rollouts are left out.
        budget
            Rollouts per step.
        gain
            A larger group is worth it when it puts more than this share of the budget to use.

        Examples
        --------
        >>> plan = GroupSizes.of(np.array([[16, 0], [10, 6]] * 100), budget=256)
        >>> [(row.size, round(row.acr.value, 2)) for row in plan.rows[:4]], plan.best
        ([(2, 0.75), (4, 0.56), (8, 0.5), (16, 0.5)], 8)
        """
        _check(sizes, budget)
        counts = counts[counts.sum(axis=1) > 0]
        tries = counts.sum(axis=1)
        model = Difficulty.of(tries, counts[:, -1]) if counts.shape[1] == 2 else None
        floor = Expected(nan, nan, nan, 0)
        if model is not None:
            middle = float(np.median(model.floor))
            floor = Expected(middle, *model.interval(model.floor), len(counts))
        rows = tuple(_row(size, counts, tries, model, budget) for size in sorted(set(sizes)))
        return cls(rows, budget, model, floor, _best(rows, gain * budget))


def _row(
    size: int,
    counts: NDArray[np.int64],
    tries: NDArray[np.int64],
    model: Difficulty | None,
    budget: float,
) -> SizeRow:
    acr, method = Expected(nan, nan, nan, 0), None
    if len(tries) and (tries >= size).mean() >= _REACH:
        acr, method = expected_ties(counts, size), "counts"
    elif model is not None:
        draws = model.ties(size)
        acr = Expected(float(draws.mean()), *model.interval(draws), len(tries))
        method = "model"
    prompts = int(budget // size)
    live = 1 - acr.value
    cost = (_cost(size, acr.value), _cost(size, acr.low), _cost(size, acr.high))
    return SizeRow(size, method, acr, cost, prompts, prompts * live, prompts * size * live)


def _cost(size: int, acr: float) -> float:
    if np.isnan(acr):
        return nan
    return size / (1 - acr) if acr < 1 else float(np.inf)


def _best(rows: tuple[SizeRow, ...], slack: float) -> int | None:
    known = [row for row in rows if row.prompts and np.isfinite(row.effective)]
    most = max((row.effective for row in known), default=0.0)
    if not most > 0:
        return None
    return next(row.size for row in known if row.effective >= most - slack)


def _check(sizes: Sequence[int], budget: float) -> None:
    if not sizes or not all(2 <= size <= _LARGEST for size in sizes):
        raise UsageError(f"group sizes must lie between 2 and {_LARGEST}; got {list(sizes)!r:.80}")
    if not 0 < budget < np.inf:
        raise UsageError(f"the budget of rollouts per step must be above 0; got {budget!r}")

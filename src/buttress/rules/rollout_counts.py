"""Which counts of a run speak of other group sizes: of success, or of the levels of the reward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.rules.case import Case
from buttress.rules.prompt_counts import late_groups

MOST_LEVELS = 16  # ours: a reward with more levels hardly ties


class RolloutCounts(NamedTuple):
    """Rollouts by prompt (by group where no prompt is known) and by level.

    `table` has the shape ``(prompt, level)``, failure first where the levels are failure and
    success. `by` names the column that was counted, `note` says why where it is not the reward.
    """

    table: NDArray[np.int64]
    by: str
    note: str = ""


def rollout_counts(case: Case) -> tuple[RolloutCounts | None, str]:
    """Return the counts over the second half of the run, or None and why there are none.

    The reward where it has two levels, else the column that says whether the task was solved,
    else the reward's levels where they are few.
    """
    if case.undefined:
        return None, case.undefined
    late = late_groups(case.groups)
    code, levels = _levels(case, case.groups.rewards)
    if levels <= 2:
        # one level tells failure from success only by its kind
        right = levels == 1 and bool((case.kinds == 1).any())
        return RolloutCounts(_table(case, code + right, 2, late), "reward"), ""
    if case.success_counts is not None and case.correctness is not None:
        name = case.correctness.column
        table = _table(case, np.where(np.isfinite(case.success), case.success, -1), 2, late)
        said = f"the reward has {levels} levels, so that success is `{name}`: the ACR is that of it"
        return RolloutCounts(table, name, said), ""
    if levels <= MOST_LEVELS:
        said = (
            f"the reward has {levels} levels and nothing says which of them is success: ties are "
            "counted level by level, and nothing is said beyond the rollouts at hand"
        )
        return RolloutCounts(_table(case, code, levels, late), "levels of the reward", said), ""
    return None, (
        f"the reward has {levels:,} levels, so that ties do not follow from counts of success; log "
        "the verifier's outcome as `correct` (0 or 1), or name it with --map correct=COLUMN"
    )


def _levels(case: Case, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """Return the level of each rollout (-1 where unknown), equal ones within the tolerance."""
    known = np.isfinite(values)
    distinct, place = np.unique(values[known], return_inverse=True)
    if not len(distinct):
        return np.full(len(values), -1), 0
    apart = ~case.tolerance.equal(distinct[:-1], distinct[1:])
    level = np.concatenate(([0], np.cumsum(apart)))
    code = np.full(len(values), -1, dtype=np.int64)
    code[known] = level[place]
    return code, int(level[-1]) + 1


def _table(
    case: Case, level: NDArray[np.generic], n_levels: int, late: NDArray[np.bool_]
) -> NDArray[np.int64]:
    groups = case.groups
    owner = groups.prompt if groups.has_prompts else np.arange(len(groups))
    n = len(groups.prompt_labels) if groups.has_prompts else len(groups)
    owner = np.where(late, owner, -1)[groups.group_of]
    level = level.astype(np.int64)
    known = (owner >= 0) & (level >= 0)
    cell = owner[known] * n_levels + level[known]
    return np.bincount(cell, minlength=n * n_levels).reshape(n, n_levels)

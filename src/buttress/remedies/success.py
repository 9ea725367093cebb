"""Whether a rollout was right: by its verifier's verdict where the batch knows it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.measures.levels import kind_by_verdict
from buttress.remedies import options

# "correct": by the column of that name where it is known, else by the level of the reward.
Success = Literal["correct", "reward"]
WRONG, RIGHT = 0, 1


def check_success(success: Any) -> None:
    """Require one of the two ways."""
    options.choice("success", success, ("correct", "reward"))


def verdicts(groups: Groups, tolerance: Tolerance, success: Success) -> NDArray[np.int64] | None:
    """Return `WRONG`, `RIGHT` or 2 (both) for each group, -1 where no verdict is known.

    None where there are no verdicts, or where only the reward counts.
    """
    return kind_by_verdict(groups, tolerance) if success == "correct" else None


def verdict_means(
    groups: Groups, success: Success
) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
    """Return the mean verdict of each group, held in [0, 1], and where there is one.

    Of the scorable rollouts whose verdict is known; None as in `verdicts`.

    Examples
    --------
    >>> groups = Groups.from_nested([[1, 0.1], [2, 2]], correct=[[1, 0], [None, None]])
    >>> mean, known = verdict_means(groups, "correct")
    >>> mean.tolist(), known.tolist()
    ([0.5, 0.0], [True, False])
    """
    correct = groups.column("correct") if success == "correct" else None
    if correct is None:
        return None
    known = np.isfinite(correct) & np.isfinite(groups.rewards)
    where = groups.group_of[known]
    count = np.bincount(where, minlength=len(groups))
    total = np.bincount(where, weights=correct[known].clip(0, 1), minlength=len(groups))
    return total / np.maximum(count, 1), count > 0

"""Each prompt over the run: how often tried, how often solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.groups.arrays import object_array
from buttress.measures.levels import Levels
from buttress.measures.segments import sum_in_groups
from buttress.measures.summary import GroupSummary
from buttress.measures.tables import KeyedCounts, counts_by_prompt


class PromptTable(NamedTuple):
    """One row per prompt, arrays of shape ``(prompt,)``."""

    prompt_id: NDArray[np.object_]
    groups: NDArray[np.int64]
    tied: NDArray[np.int64]
    tries: NDArray[np.int64]
    successes: NDArray[np.float64]

    @property
    def rate(self) -> NDArray[np.float64]:
        """Success rate; NaN where nothing could be scored."""
        with np.errstate(invalid="ignore"):
            return self.successes / self.tries


@dataclass(frozen=True)
class PromptCounts:
    """What is needed per prompt identity, in a form that adds up.

    Which scale the rewards have, and whether the log knows `correct` at all, only the whole run
    tells; so both readings of success are kept until the table is asked for.
    """

    counts: KeyedCounts  # prompt id -> [groups, tied, judged, correct, scored, sum of rewards]
    levels: Levels
    judged: int  # rollouts with a known `correct`, those without a prompt included

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the prompts of a batch."""
        summary = GroupSummary.of(groups, tolerance)
        correct = groups.column("correct")
        if correct is None:
            judged = right = np.zeros(len(groups))
        else:
            judged, right = sum_in_groups(correct, groups)
        columns = [
            np.ones(len(groups)),
            summary.tied,
            judged,
            right,
            *sum_in_groups(groups.rewards, groups),
        ]
        counts = counts_by_prompt(groups, columns, np.float64)
        return cls(counts, Levels.of(summary), int(judged.sum()))

    def __add__(self, other: PromptCounts) -> PromptCounts:
        return PromptCounts(
            self.counts + other.counts,
            self.levels.union(other.levels),
            self.judged + other.judged,
        )

    def table(self) -> PromptTable:
        """Return the counts as one row per prompt, with success as `success_column` reads it."""
        rows = self.counts.rows
        groups, tied, judged, correct, scored, total = rows.T
        if self.judged:
            tries, successes = judged, correct
        else:
            low, high = _reward_scale(self.levels)
            tries, successes = scored, (total - low * scored) / (high - low)
        return PromptTable(
            object_array(self.counts.names),
            groups.astype(np.int64),
            tied.astype(np.int64),
            tries.astype(np.int64),
            successes,
        )


def success_column(groups: Groups) -> NDArray[np.float64]:
    """Return how far each rollout succeeded, in [0, 1]; NaN where unknown.

    `correct` where the log knows it of any rollout; else the reward on the scale of the batch from
    its lowest to its highest level (our reading for rewards other than 0 and 1). Rewards within
    [0, 1] are taken as they are.

    Examples
    --------
    >>> success_column(Groups.from_nested([[-1, 1], [None, 0]])).tolist()
    [0.0, 1.0, nan, 0.5]
    """
    correct = groups.column("correct")
    if correct is not None and np.isfinite(correct).any():
        return np.where(np.isfinite(correct), correct, np.nan)
    low, high = _reward_scale(Levels.of(GroupSummary.of(groups)))
    return (groups.rewards - low) / (high - low)


def _reward_scale(levels: Levels) -> tuple[float, float]:
    """Return the rewards that stand for failure and for success."""
    low, high = min(0.0, levels.low), levels.high
    if not high > low or (low == 0.0 and high <= 1.0):
        high = low + 1.0
    return low, high


def prompt_counts(groups: Groups) -> PromptTable:
    """Return tries and successes of each prompt.

    Examples
    --------
    >>> groups = Groups.from_nested([[1, 0], [1, 1], [0, 0]], prompt_id=["a", "b", "a"])
    >>> table = prompt_counts(groups)
    >>> table.prompt_id.tolist(), table.tries.tolist(), table.successes.tolist()
    (['a', 'b'], [4, 2], [1.0, 2.0])
    """
    return PromptCounts.of(groups).table()

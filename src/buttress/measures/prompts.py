"""Each prompt over the run: how often tried, how often solved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import Additive
from buttress.measures.summary import GroupSummary


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


@dataclass(frozen=True, slots=True)
class PromptCounts(Additive):
    """``[groups, tied, tries, successes]`` per prompt identity."""

    counts: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the prompts of a batch, with success as `success_column` reads it."""
        named = groups.prompt >= 0
        summary = GroupSummary.of(groups, tolerance)
        success = success_column(groups)
        known = np.isfinite(success)
        per_group = [
            np.ones(len(groups)),
            summary.tied,
            np.bincount(groups.group_of[known], minlength=len(groups)),
            np.bincount(groups.group_of[known], weights=success[known], minlength=len(groups)),
        ]
        n_prompts = len(groups.prompt_labels)
        columns = [
            np.bincount(groups.prompt[named], weights=values[named], minlength=n_prompts)
            for values in per_group
        ]
        table = np.stack(columns, axis=1) if n_prompts else np.zeros((0, 4))
        return cls(dict(zip(map(str, groups.prompt_labels), table, strict=True)))

    def table(self) -> PromptTable:
        """Return the counts as one row per prompt."""
        rows = np.array(list(self.counts.values()), dtype=np.float64).reshape(-1, 4)
        groups, tied, tries = rows[:, :3].astype(np.int64).T
        names = np.array(list(self.counts), dtype=object)
        return PromptTable(names, groups, tied, tries, rows[:, 3])


def success_column(groups: Groups) -> NDArray[np.float64]:
    """Return how far each rollout succeeded, in [0, 1]; NaN where unknown.

    `correct` where the log knows it; else the reward on the scale of the batch from its lowest to
    its highest level (our reading for rewards other than 0 and 1). Rewards within [0, 1] are taken
    as they are.
    """
    correct = groups.column("correct")
    if correct is not None and np.isfinite(correct).any():
        return correct
    rewards = groups.rewards
    if not np.isfinite(rewards).any():
        return rewards
    low, high = min(0.0, float(np.nanmin(rewards))), float(np.nanmax(rewards))
    if low == 0.0 and high <= 1.0:
        return rewards
    return (rewards - low) / (high - low) if high > low else np.zeros_like(rewards)


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

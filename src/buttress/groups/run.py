"""A run at rest: its rollouts, its scalars, where they came from and what was wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups.groups import Groups


class Problem(NamedTuple):
    """A line, file or column that could not be read; the rest was."""

    file: str
    line: int  # counted from 1; 0 where the whole file is meant
    message: str


class Text(NamedTuple):
    """Prompt and completion of one rollout. Hostile: escape before showing."""

    prompt: str
    completion: str


class Scalar(NamedTuple):
    """One metric over the run; `step` ascends, `value` is NaN where the trainer logged null."""

    step: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a run was read from, and what the reader had to infer."""

    paths: tuple[str, ...] = ()
    format: str = "memory"
    inferred: tuple[
        str, ...
    ] = ()  # sentences for the report: "groups: rows of one step and prompt"


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a reader knows of a log beyond its rows; None where it does not know.

    Attributes
    ----------
    grouped_by
        ``key`` (the log names its groups), ``prompt`` (rows of one step and prompt) or
        ``position`` (runs of consecutive rows).
    group_size
        The configured number of rollouts per prompt.
    groups_per_step
        The configured number of groups per step.
    logged_every
        The trainer wrote the rollouts of every n-th step only; the others are lost.
    repeated
        Rollouts that stood in the log more than once and were dropped.
    unreadable
        Rollout rows that were cut off or broken and had to be left out.
    filtered
        The trainer is known to drop tied groups before it logs.
    live_groups
        Dynamic sampling: the mixed groups that an update waits for; None where it is off.
    generation_batch
        Dynamic sampling: the prompts that are generated at a time.
    max_generation_batches
        Dynamic sampling: how many such batches an update may take.
    """

    grouped_by: Literal["key", "prompt", "position"] | None = None
    group_size: int | None = None
    groups_per_step: int | None = None
    logged_every: int | None = None
    repeated: int = 0
    unreadable: int = 0
    filtered: bool = False
    live_groups: int | None = None
    generation_batch: int | None = None
    max_generation_batches: int | None = None


@dataclass(frozen=True)
class Run:
    """Everything that was read: the input of the rules and of the report.

    Attributes
    ----------
    groups
        The rollouts; may be empty when only scalars were found.
    scalars
        Metrics under TRL's names (``loss``, ``grad_norm``, ``frac_reward_zero_std``, ...).
    source
        Paths, format, and what was inferred.
    problems
        What could not be read.
    texts
        Fetches prompt and completion of samples (by index into `groups`), or None where the log
        holds no text. Texts stay on disk until asked for.
    facts
        What else the reader knows of the log.
    """

    groups: Groups
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    source: Source = Source()
    problems: tuple[Problem, ...] = ()
    texts: Callable[[Sequence[int]], list[Text]] | None = None
    facts: LogFacts = LogFacts()

    def __repr__(self) -> str:
        metrics, problems = len(self.scalars), len(self.problems)
        said = f"{self.groups!r}, {metrics} metric{'s' * (metrics != 1)}, {self.source.format}"
        broken = f", {problems} problem{'s' * (problems != 1)}" if problems else ""
        return f"Run({said}{broken})"

    def scalar(self, name: str) -> Scalar | None:
        """Return one metric with its null entries left out, or None where it was never logged."""
        found = self.scalars.get(name)
        if found is None:
            return None
        known = np.isfinite(found.value)
        return Scalar(found.step[known], found.value[known]) if known.any() else None

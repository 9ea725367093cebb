"""Which column says whether the task was solved, and what it says of each group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.measures import GroupSummary, Levels

# Names that reward functions go by. A format-like name wins: `answer_format` is a format.
FORMAT_LIKE = re.compile(
    r"format|xml|tag|style|struct|syntax|think|length|len$|brev|short|concis|overlong|penal|punish"
    r"|repeti|lang|bonus|cosine|polite|tone",
    re.IGNORECASE,
)
TASK_LIKE = re.compile(
    r"correct|accura|(^|_)acc($|_)|answer|exact|solv|verif|outcome|success|match|math|test|pass|task"
    r"|goal|win",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False, slots=True)
class Correctness:
    """The column that says whether the task was solved; masks of shape ``(group,)``.

    Attributes
    ----------
    column
        ``correct``, or the one ``reward/<name>`` whose name says so (our reading).
    summary
        Its order statistics.
    wrong, right
        Groups that are tied on it at the bottom and at the top.
    """

    column: str
    summary: GroupSummary
    wrong: NDArray[np.bool_]
    right: NDArray[np.bool_]

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Groups that are tied on correctness."""
        return self.summary.tied

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """Groups of which two or more rollouts have a verdict."""
        return self.summary.eligible


def find_correctness(components: Mapping[str, GroupSummary]) -> Correctness | None:
    """Return what is known of correctness, or None where no column tells."""
    names = ["correct", *(name for name in components if is_component(name) and task_like(name))]
    for name in names:
        if name in components and components[name].eligible.any():
            return _read(name, components[name])
    return None


def _read(name: str, summary: GroupSummary) -> Correctness:
    tied, tolerance = summary.tied, summary.tolerance
    if name == "correct":
        wrong, right = summary.high <= tolerance.atol, summary.low >= 1 - tolerance.atol
        return Correctness(name, summary, tied & wrong, tied & right)
    kind = np.full(len(tied), -1)
    kind[tied] = Levels.of(summary).kind(summary.low[tied], tolerance)
    return Correctness(name, summary, kind == 0, kind == 1)


def is_component(name: str) -> bool:
    """Return whether a column is a reward component."""
    return name.startswith("reward/")


def format_like(name: str) -> bool:
    """Return whether a component's name is that of a format, style or length reward."""
    return bool(FORMAT_LIKE.search(name.removeprefix("reward/")))


def task_like(name: str) -> bool:
    """Return whether a component's name is that of a task reward."""
    return bool(TASK_LIKE.search(name.removeprefix("reward/"))) and not format_like(name)

"""What state each prompt is in: never solved, learning, mastered, lost, duplicated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.identity import codes_of
from buttress.measures import PromptTable, prompt_counts, success_column
from buttress.measures.mastery import recent
from buttress.measures.segments import sum_in_groups
from buttress.report.chart import Colour
from buttress.rules import Case

# Name, colour, what to do: keep sampling it, hold it back for later, or drop it.
STATES: tuple[tuple[str, Colour, str], ...] = (
    ("never solved", "wrong", "hold"),
    ("learning", "mixed", "keep"),
    ("mastered", "correct", "drop"),
    ("lost", "between", "keep"),
    ("duplicated", "ink", "drop"),
    ("not scored", "muted", "keep"),
)
_NEVER, _LEARNING, _MASTERED, _LOST, _DUPLICATED, _UNSCORED = range(len(STATES))


class PromptStates(NamedTuple):
    """One entry per prompt of the table.

    Attributes
    ----------
    state
        Index into `STATES`.
    original
        Place of the prompt that a duplicated one repeats, -1 for others.
    """

    table: PromptTable
    state: NDArray[np.int64]
    original: NDArray[np.int64]


def prompt_states(case: Case) -> PromptStates:
    """Return the state of each prompt.

    Duplicated: its text stands under another id that came first. Lost: solved over a stretch of
    the run and no longer at its end (`measures.mastery`). Never solved: without one success in the
    whole run. Mastered: nothing but success over its latest visits with eight rollouts or more.
    Learning: everything between.

    Examples
    --------
    >>> from buttress.groups import Groups, Run
    >>> groups = Groups.from_nested([[0, 0], [1, 0], [1, 1]], prompt_id=["a", "b", "c"])
    >>> [STATES[code][0] for code in prompt_states(Case(Run(groups))).state]
    ['never solved', 'learning', 'mastered']
    """
    groups = case.groups
    table = prompt_counts(groups)
    row = _rows(groups, table)
    of_group = np.where(groups.prompt >= 0, row[groups.prompt], -1)
    n, n_rows = len(groups.prompt_labels), len(table.prompt_id)
    scored, total = sum_in_groups(success_column(groups), groups)
    tries, wins = recent(of_group, groups.step, scored, total, n_rows)
    lost = np.zeros(n_rows, dtype=bool)
    if case.mastery is not None:
        lost[row[np.flatnonzero(case.mastery.lost & (row[:n] >= 0))]] = True
    original = _originals(groups, row, n_rows)
    lines = [original >= 0, table.tries == 0, lost, table.successes <= 0, wins >= tries]
    states = [_DUPLICATED, _UNSCORED, _LOST, _NEVER, _MASTERED]
    return PromptStates(table, np.select(lines, states, _LEARNING), original)


def _rows(groups: Groups, table: PromptTable) -> NDArray[np.int64]:
    """Return the row of the table for each prompt code; -1 for a prompt without groups."""
    place = {name: at for at, name in enumerate(table.prompt_id.tolist())}
    rows = [place.get(str(label), -1) for label in groups.prompt_labels.tolist()]
    return np.array([*rows, -1], dtype=np.int64)


def _originals(groups: Groups, row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return the row of the first prompt with the same text, -1 where that is the prompt itself."""
    original = np.full(n_rows, -1, dtype=np.int64)
    given = groups.columns.get("prompt_text")
    if given is None or not len(given):
        return original
    texts = given if given.dtype.kind in "iu" else codes_of(given, "column 'prompt'")[0]
    owner = groups.columns.get("prompt")
    owner = np.repeat(groups.prompt, groups.sizes) if owner is None else owner
    known = (texts >= 0) & (owner >= 0)
    prompts, first = np.unique(row[owner[known]], return_index=True)
    text = texts[known][first]
    order = np.argsort(first, kind="stable")
    prompts, text = prompts[order], text[order]
    _, leader, same = np.unique(text, return_index=True, return_inverse=True)
    repeats = (leader[same] != np.arange(len(text))) & (prompts >= 0)
    original[prompts[repeats]] = prompts[leader[same]][repeats]
    return original

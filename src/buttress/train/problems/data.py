"""Problems to solve: rows with a prompt and an answer, from the hub, a file or a procedure.

==========================  ======================================================================
``AI-MO/NuminaMath-1.5``    a data set of the hub, through `datasets` (extra ``hub``)
``train.jsonl``             JSONL, CSV, TSV or Parquet, also ``.gz`` and ``.zst``; also a pattern
``data/MATH-500``           a folder, as `hf download --local-dir` or `save_to_disk` leaves it
``gym:leg_counting?size=9``  problems that reasoning-gym makes (extra ``gym``)
==========================  ======================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from buttress.errors import InputError, UsageError
from buttress.logs.prose import text_of
from buttress.report.hostile import safe_name
from buttress.train.problems.sources import load_table
from buttress.train.problems.tables import Table

PROMPTS = ("prompt", "problem", "question", "query", "instruction")
ANSWERS = ("answer", "solution", "ground_truth", "final_answer", "target", "label")
_SHOWN = 30


class Row(dict[str, Any]):
    """The columns of one problem, with ``prompt`` (text or messages) and ``answer`` set."""


@dataclass(frozen=True)
class Problems:
    """A data set in memory.

    Attributes
    ----------
    name
        What the user typed.
    rows
        In the order of the data set; `index` counts them from 0.
    left_out
        What could not be read, as sentences with file and line.
    """

    name: str
    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def digest(self) -> str:
        """A hash of prompts and answers in their order."""
        found = hashlib.blake2b(digest_size=16)
        for row in self.rows:
            found.update(repr((row["prompt"], row["answer"])).encode("utf-8", "replace"))
        return found.hexdigest()


def load_problems(
    name: str,
    *,
    prompt: str | None = None,
    answer: str | None = None,
    choices: str | None = None,
    subset: str | None = None,
    split: str = "train",
    revision: str | None = None,
    limit: int | None = None,
    needs_answer: bool = True,
) -> Problems:
    """Read a data set.

    Parameters
    ----------
    name
        Hub name, file, pattern, folder or ``gym:`` task (see the table of this module).
    prompt, answer
        Columns, also nested ones (``reward_model.ground_truth``); by default the first that the
        data set has of `PROMPTS` and of `ANSWERS`.
    choices
        A column with a list of options; they are set under the prompt as ``A. ...`` to ``J. ...``.
    subset, split, revision
        As `datasets.load_dataset` names them; files have none of them.
    limit
        Use the first so many rows only.
    needs_answer
        Whether a row without an answer is of no use. A judge of the user's own may need none;
        ``answer`` is None then.

    Raises
    ------
    InputError
        Where nothing can be read, a column is missing (the message names those that are there) or
        every row lacks a prompt or an answer.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be 1 or more; got {limit}")
    table = load_table(name, subset=subset, split=split, revision=revision, limit=limit)
    asked = _column(name, "prompt", prompt, PROMPTS, table)
    gold = _column(name, "answer", answer, ANSWERS, table, needed=needs_answer)
    rows, left_out = _canonical(table, asked, gold, choices, needs_answer)
    if not rows:
        said = "; ".join(left_out[:3])
        raise InputError(f"the data set {name} holds no problem{': ' if said else ''}{said}")
    return Problems(name, tuple(rows[:limit]), tuple(left_out))


def _canonical(
    table: Table, asked: str, gold: str, choices: str | None, needs_answer: bool
) -> tuple[list[Row], list[str]]:
    """Return rows with ``prompt`` and ``answer``, and what had to be left out."""
    rows, left_out = [], list(table.problems)
    for place, row in zip(table.places, table.rows, strict=True):
        question, right = _asked(_get(row, asked)), _answer(_get(row, gold))
        options = _get(row, choices) if choices else ()
        if not question:
            fault = f"no text in the column {asked!r}"
        elif right is None and needs_answer:
            fault = f"nothing in the column {gold!r}"
        else:
            fault = _choices_fault(choices, options)
        if fault:
            left_out.append(f"{place}: {fault}, row left out")
            continue
        if options:
            question = f"{text_of(question)}\n{_lettered(options)}"
        rows.append(Row({**row, "prompt": question, "answer": right}))
    return rows, left_out


def _choices_fault(choices: str | None, options: Any) -> str:
    listed = isinstance(options, Sequence) and not isinstance(options, str)
    if choices and not (listed and 1 < len(options) <= len(ascii_uppercase)):
        return f"no list of 2 to 26 options in the column {choices!r}"
    return ""


def _lettered(options: Iterable[Any]) -> str:
    pairs = zip(ascii_uppercase, options, strict=False)
    return "\n".join(f"{letter}. {option}" for letter, option in pairs)


def _column(
    name: str,
    what: str,
    given: str | None,
    usual: Sequence[str],
    table: Table,
    *,
    needed: bool = True,
) -> str:
    """Return the column to read; raises `InputError` naming those that there are."""
    known = table.columns
    shown = ", ".join(safe_name(one) for one in known[:_SHOWN]) or "none"
    if given is None:
        found = next((one for one in usual if one in known), None)
        if found is None and not needed:
            return usual[0]
        if found is None:
            raise InputError(
                f"the data set {name} has no column for the {what} under a usual name "
                f"({', '.join(usual)}); it has: {shown}. Name it with --{what} COLUMN"
            )
        return found
    if given in known or any(_get(row, given) is not None for row in table.rows[:100]):
        return given
    raise InputError(
        f"the data set {name} has no column {given!r} for the {what}; it has: {shown}. "
        f"Name one of them with --{what} COLUMN"
    )


def _get(row: Mapping[str, Any], column: str) -> Any:
    """Return a value by its column, or by the path through nested tables."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _asked(value: Any) -> Any:
    """Return a prompt as text or as messages; None where it is neither."""
    if isinstance(value, str):
        return value if value.strip() else None
    messages = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(messages, list) and all(
        isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in messages
    ):
        return [dict(one) for one in messages] or None
    return None


def _answer(value: Any) -> Any:
    """Return an answer; a list of parts is joined, as graders of several answers expect."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        value = ", ".join(str(one) for one in value) or None
    blank = isinstance(value, str) and not value.strip()
    return None if value is None or value != value or blank else value

"""From problems to what TRL trains on: the prompt as the model is asked, and every other column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from buttress.errors import UsageError
from buttress.train.config import Data
from buttress.train.problems.asking import Asking
from buttress.train.problems.data import load_problems
from buttress.train.source import Source


def problem_rows(
    data: Data, tokenizer: Any, source: Source
) -> tuple[list[dict[str, Any]], str, tuple[str, ...]]:
    """Return the rows of a data set, its fingerprint, and what had to be left out."""
    found = load_problems(
        data.path,
        prompt=data.prompt,
        answer=data.answer,
        choices=data.choices,
        subset=data.subset,
        split=data.split,
        revision=data.revision,
        limit=data.limit,
    )
    asking = Asking(data.template, data.system, data.chat)
    rows = [{**row, "prompt": asking.prompt(row, tokenizer)} for row in found.rows]
    try:
        asking.text(rows[0]["prompt"], tokenizer)
    except UsageError as fault:
        raise source.fault(("data", "chat"), str(fault)) from None
    return complete(rows), found.digest, found.left_out


def complete(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the same columns each; what a row lacks is None.

    >>> complete([{"a": 1}, {"b": 2}])
    [{'a': 1, 'b': None}, {'a': None, 'b': 2}]
    """
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]

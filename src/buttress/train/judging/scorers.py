"""What judges one completion against the row of its problem: exact match and reasoning-gym."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from buttress.errors import InputError, MissingExtraError, UsageError
from buttress.train.judging.answers import final_answer

Row = Mapping[str, Any]
Scorer = Callable[[Sequence[str], Sequence[Row]], Sequence[float | None]]


def scorer_of(use: str, options: Mapping[str, Any]) -> Scorer:
    """Return the scorer ``exact`` or ``gym``, built with its options."""
    kinds: dict[str, Callable[..., Scorer]] = {"exact": _exact, "gym": _gym}
    try:
        return kinds[use](**options)
    except TypeError as fault:
        raise UsageError(f"reward {use}: {fault}") from None


def _exact(pattern: str | None = None, ignore_case: bool = False) -> Scorer:
    """Compare texts, white space around them left out.

    With a `pattern` the answer is its last match in the completion: the first group of it if there
    is one. A completion without a match is wrong.
    """
    try:
        compiled = re.compile(pattern) if pattern else None
    except re.error as fault:
        message = f"reward exact: {pattern!r} is no regular expression: {fault}"
        raise UsageError(message) from None

    def one(text: str, row: Row) -> float | None:
        answer = row.get("answer")
        if answer is None:
            return None
        found = _last(compiled, text) if compiled else text
        if found is None:
            return 0.0
        pair = found.strip(), final_answer(answer)
        if ignore_case:
            pair = pair[0].casefold(), pair[1].casefold()
        return float(pair[0] == pair[1])

    return _each(one)


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0][1 if pattern.groups else 0] if last else None


def _gym(dataset: str | None = None, pattern: str | None = None) -> Scorer:
    """Score with reasoning-gym: the data set's own scorer, by name or by the row's metadata."""
    compiled = re.compile(pattern) if pattern else None

    def one(text: str, row: Row) -> float | None:
        metadata = row.get("metadata")
        metadata = json.loads(metadata) if isinstance(metadata, str) else dict(metadata or {})
        name = dataset or metadata.get("source_dataset")
        if not name:
            raise InputError(
                "reward gym needs the data set's name: a column metadata with source_dataset, as "
                "reasoning-gym writes it, or options = { dataset = NAME }"
            )
        found = _last(compiled, text) if compiled else text.strip()
        entry = {**row, "metadata": metadata}
        return float(_gym_scorer(str(name))(found, entry))

    return _each(one)


@cache
def _gym_scorer(name: str) -> Callable[..., float]:
    try:
        from reasoning_gym import get_score_answer_fn
    except ImportError:
        raise MissingExtraError.of("the reward gym", "gym") from None
    try:
        return get_score_answer_fn(name)
    except ValueError:
        from reasoning_gym.factory import DATASETS

        raise UsageError.unknown("data set of reasoning-gym", name, DATASETS) from None


def _each(one: Callable[[str, Row], float | None]) -> Scorer:
    def score(texts: Sequence[str], rows: Sequence[Row]) -> list[float | None]:
        return [one(text, row) for text, row in zip(texts, rows, strict=True)]

    return score

"""Columns that change their name, come or go in the course of a log."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from buttress.logs.problems import Problems


class Seen(NamedTuple):
    """Where rows were read with which columns: canonical name -> column of the file."""

    columns: dict[str, str]
    path: Path
    line: int


class Changes:
    """Remembers the columns that rows were read from, and says once per file that they changed."""

    def __init__(self) -> None:
        self._first: Seen | None = None
        self._last: Seen | None = None

    def note(self, seen: Seen, problems: Problems) -> None:
        """Take the columns of further rows."""
        self._first = self._first or seen
        before, self._last = self._last, seen
        if before is None or before.columns == seen.columns:
            return
        message = (
            f"mixed schemas: from about here on {'; '.join(_told(before.columns, seen.columns))}"
        )
        problems.once((seen.path, "schema"), str(seen.path), seen.line, message)

    def absorb(self, other: Changes, problems: Problems) -> None:
        """Take over what was seen of later files."""
        if other._first is not None:
            self.note(other._first, problems)
            self._last = other._last


def _told(before: dict[str, str], after: dict[str, str]) -> list[str]:
    told = [
        f"{name} is read from {column}, before from {before[name]}"
        for name, column in after.items()
        if before.get(name, column) != column
    ]
    told += [f"{name} appears" for name in after if name not in before]
    return told + [f"{name} is gone" for name in before if name not in after]

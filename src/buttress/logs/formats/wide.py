"""JSON lines that hold a whole step each, column by column: rows are counted through the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.lines import blocks
from buttress.logs.formats.nested import FAULTS, decoded
from buttress.logs.reader import Fetch

# A step of 4096 rollouts with 32 thousand tokens each has half of it.
LIMIT = 1 << 30

Row = dict[str, Any]


def steps_of(path: Path, builder: RolloutBuilder) -> Iterator[tuple[int, Row]]:
    """Yield the number of each line and what it holds; a line that is no object is a problem."""
    before = 1
    for block in blocks(path, builder, limit=LIMIT):
        last = int(block.numbers()[-1])
        for number, line in block.lines():
            try:
                row = decoded(line, dict[str, Any])
            except FAULTS as fault:
                torn = block.torn and number == last
                kind = "the last line is cut off" if torn else "not a JSON object"
                # it held about as many rollouts as the line before
                message = f"{kind}: {str(fault) or type(fault).__name__}"
                builder.problem(path, number, message, lost=before, kind=kind)
            else:
                before = max(1, len(listed(row, "completion", "responses")))
                yield number, row


def listed(row: Row, *names: str) -> list[Any]:
    """Return the first of these columns that is a list; an empty one without any."""
    return next((row[name] for name in names if isinstance(row.get(name), list)), [])


def column(row: Row, name: str, count: int, complain: Callable[[str], None]) -> list[Any] | None:
    """Return a column as a list of `count` values, None where it is absent.

    One value stands for all rows. A list of another length cannot be told apart by rows; that is
    said and the column unknown.
    """
    found = row.get(name)
    if found is None:
        return None
    if not isinstance(found, list):
        return [found] * count
    if len(found) == count:
        return found
    complain(f"{name} has {len(found)} values for {count} rollouts; taken as unknown")
    return None


def wide_texts(read: Callable[[Row], Sequence[Text]]) -> Fetch:
    """Return what fetches texts of rows that are counted from 1 through the lines of a file.

    `read` returns the texts of a line, as many as rows were made of it.
    """

    def fetch(path: Path, rows: Sequence[int]) -> list[Text]:
        found: list[Text] = []
        wanted = iter(rows)
        row, first = next(wanted, None), 1
        for _, line in steps_of(path, RolloutBuilder()):
            if row is None:
                break
            texts = read(line)
            while row is not None and row < first + len(texts):
                found.append(texts[row - first])
                row = next(wanted, None)
            first += len(texts)
        return found + [Text("", "")] * (len(rows) - len(found))

    return fetch

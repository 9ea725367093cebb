"""The engine of nested JSONL: a line is a record of its framework and holds several rollouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.decode import any_json
from buttress.logs.formats.lines import blocks, valid_utf8
from buttress.logs.prose import text_of

FAULTS = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class Rollout(NamedTuple):
    """One rollout of a record.

    Attributes
    ----------
    columns
        Canonical name -> value, as the builder takes them; absent is unknown.
    others
        Further values by the names that ``--map`` may use.
    """

    columns: dict[str, Any]
    others: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Place:
    """Where a record stands, and who is told what is wrong with it."""

    builder: RolloutBuilder
    path: Path
    line: int

    def problem(self, message: str, *, lost: int = 0, kind: str | None = None) -> None:
        """Record what could not be read of this record."""
        self.builder.problem(self.path, self.line, message, lost=lost, kind=kind)


@dataclass(frozen=True)
class RecordFormat:
    """What a line of a format is, and which rollouts it holds.

    Attributes
    ----------
    what
        A record in words, for messages: ``a verifiers episode``.
    kind
        The msgspec type of a record; fields that are not named are skipped unread.
    rollouts
        Yields the rollouts of a record. A function of a module, so that processes can share it.
    """

    what: str
    kind: Any
    rollouts: Callable[[Any, Place], Iterable[Rollout]]

    def record(self, line: bytes) -> Any:
        """Return a line as a record; raises one of `FAULTS`."""
        return decoded(line, self.kind)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decoded(data: bytes, kind: Any) -> Any:
    """Return JSON as a msgspec type, also with Python's NaN and with bytes that are not UTF-8.

    Raises one of `FAULTS`.
    """
    try:
        return _decoder(kind).decode(data)
    except FAULTS:
        pass
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not valid_utf8(data):
        data = data.decode("utf-8", "replace").encode()
    return msgspec.convert(any_json(data), kind)


class Nested:
    """Reads files of one record per line; what is no record is a problem with its line."""

    def __init__(self, builder: RolloutBuilder, format: RecordFormat) -> None:
        self._builder = builder
        self._format = format

    def read(self, path: Path) -> None:
        """Read one file."""
        texts = RecordTexts(self._format)
        file, count = self._builder.open(path, texts.fetch), 0
        for block in blocks(path, self._builder):
            last = int(block.numbers()[-1])
            rows: list[Rollout] = []
            lines: list[int] = []
            for number, line in block.lines():
                torn = block.torn and number == last
                found = self._rollouts(line, Place(self._builder, path, number), torn=torn)
                rows += found
                lines += [number] * len(found)
            if rows:
                numbers = np.arange(count, count + len(rows), dtype=np.int32) + 1
                self._builder.add(file, numbers, columns_of(rows, self._builder), lines)
                texts.lines.append(np.array(lines, dtype=np.int32))
                count += len(rows)

    def _rollouts(self, line: bytes, place: Place, *, torn: bool) -> list[Rollout]:
        try:
            return list(self._format.rollouts(self._format.record(line), place))
        except FAULTS as fault:
            kind = "the last line is cut off" if torn else f"not {self._format.what}"
            place.problem(f"{kind}: {fault or type(fault).__name__}", lost=1, kind=kind)
            return []


def columns_of(rows: Sequence[Rollout], builder: RolloutBuilder) -> dict[str, list[Any]]:
    """Return rollouts as the builder's columns, after what the user mapped."""
    mapped = builder.options.map
    for name, column in mapped.items():
        for row in rows:
            if column in row.others:
                row.columns[name] = row.others[column]
                builder.mapped.add(name)
    builder.columns.update(dict.fromkeys(name for row in rows for name in row.others))
    names = dict.fromkeys(name for row in rows for name in row.columns)
    return {name: [row.columns.get(name) for row in rows] for name in names}


@dataclass
class RecordTexts:
    """Reads the texts of rollouts back from the lines of a file; empty where they are gone."""

    format: RecordFormat
    lines: list[Any] = field(default_factory=list)  # of each rollout, in the order of the file

    def fetch(self, path: Path, rows: Sequence[int]) -> list[Text]:
        """Return the texts of the rollouts with these numbers, from 1, ascending."""
        lines = np.concatenate(self.lines)
        wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            line = int(lines[row - 1])
            wanted[line].append((row, row - 1 - int(np.searchsorted(lines, line))))
        found = dict(self._found(path, wanted))
        return [found.get(row, Text("", "")) for row in rows]

    def _found(
        self, path: Path, wanted: Mapping[int, list[tuple[int, int]]]
    ) -> Iterator[tuple[int, Text]]:
        unheard = RolloutBuilder()
        last = max(wanted)
        for block in blocks(path):
            for line in range(block.first, block.first + len(block)):
                if line in wanted:
                    texts = self._texts(block.line(line - block.first), Place(unheard, path, line))
                    yield from ((row, texts[at]) for row, at in wanted[line] if at < len(texts))
            if block.first > last:
                return

    def _texts(self, line: bytes, place: Place) -> list[Text]:
        try:
            rows = list(self.format.rollouts(self.format.record(line), place))
        except FAULTS:  # the file was changed since
            return []
        return [text(row) for row in rows]


def text(row: Rollout) -> Text:
    """Return the texts of a rollout."""
    prompt, completion = (text_of(row.columns.get(name)) for name in ("prompt", "completion"))
    return Text(prompt or "", completion or "")

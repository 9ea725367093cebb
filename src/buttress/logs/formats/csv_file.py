"""CSV and TSV as records with their line numbers; one broken line never costs the others."""

from __future__ import annotations

import contextlib
import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.files import plain_suffix
from buttress.logs.formats.lines import blocks

CHUNK = 20_000
_DELIMITERS = (",", "\t", ";", "|")
_HEADER_LIMIT = 1 << 20
_BOM = "\ufeff"
# A record beyond this is taken for a quote that is never closed.
_RECORD_LIMIT = 16 << 20


class Chunk(NamedTuple):
    """Some records: the first line of each, and the fields of each column."""

    lines: list[int]
    columns: dict[str, list[str]]


class _Line(NamedTuple):
    number: int
    text: str


class _EndlessError(Exception):
    """A record does not end."""


@dataclass(frozen=True)
class CsvFile:
    """A delimited file with a header.

    Attributes
    ----------
    path
        The file; it may be compressed.
    names
        The columns, in the order of the header.
    delimiter
        What stands between two fields.
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str

    @classmethod
    def of(cls, path: Path, head: bytes) -> CsvFile | None:
        """Return the file by its first bytes; None where they begin with no header."""
        first = next(iter(head.decode("utf-8", "replace").removeprefix(_BOM).splitlines()), "")
        if "\0" in first or len(first) > _HEADER_LIMIT:
            return None
        tabs = plain_suffix(path) in (".tsv", ".tab")
        order = ("\t", *_DELIMITERS) if tabs else _DELIMITERS
        headers = {delimiter: _header(first, delimiter) for delimiter in order}
        best = max(headers, key=lambda delimiter: len(headers[delimiter]))
        return cls(path, headers[best], best) if any(headers[best]) else None

    def first(self, head: bytes, count: int) -> list[list[str]]:
        """Return some whole records from the first bytes."""
        lines = head.decode("utf-8", "replace").splitlines(keepends=True)[1:]
        reader = csv.reader(lines, delimiter=self.delimiter)
        found: list[list[str]] = []
        with contextlib.suppress(csv.Error):
            for fields in reader:
                if len(fields) == len(self.names):
                    found.append(fields)
                if len(found) == count:
                    break
        return found

    def chunks(self, builder: RolloutBuilder | None = None) -> Iterator[Chunk]:
        """Yield the records in chunks; broken ones are problems of the builder."""
        width = len(self.names)
        lines, rows = [], []
        for line, fields in self._records(width, builder):
            lines.append(line)
            rows.append(fields)
            if len(rows) == CHUNK:
                yield self._chunk(lines, rows)
                lines, rows = [], []
        if rows:
            yield self._chunk(lines, rows)

    def texts(self, rows: Sequence[int], columns: tuple[str | None, str | None]) -> list[Text]:
        """Return prompt and completion of the records that begin at these lines, ascending."""
        found = dict.fromkeys(rows, Text("", ""))
        for chunk in self.chunks():
            for at, line in enumerate(chunk.lines):
                if line in found:
                    pair = ("" if one is None else chunk.columns[one][at] for one in columns)
                    found[line] = Text(*pair)
            if rows and chunk.lines[-1] >= rows[-1]:
                break
        return [found[row] for row in rows]

    def _chunk(self, lines: list[int], rows: list[list[str]]) -> Chunk:
        columns = zip(*rows, strict=True)
        named: dict[str, list[str]] = {}
        for name, column in zip(self.names, columns, strict=True):
            named.setdefault(name, list(column))
        return Chunk(lines, named)

    def _records(
        self, width: int, builder: RolloutBuilder | None
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield records of the header's width; after a broken one, go on with the next line."""
        csv.field_size_limit(max(csv.field_size_limit(), _RECORD_LIMIT))
        feed = _Feed(_lines(self.path, builder))
        reader = csv.reader(feed, delimiter=self.delimiter, strict=True)
        next(feed, None)  # the header
        while True:
            feed.taken.clear()
            try:
                fields = next(reader)
            except StopIteration:
                return
            except (csv.Error, _EndlessError) as fault:
                message = f"a quote is not closed where it should be, line left out: {fault}"
                kind = "quote"
            else:
                if len(fields) == width:
                    yield feed.taken[0].number, fields
                    continue
                if not fields:
                    continue
                message = f"{len(fields)} fields where the header has {width}, line left out"
                kind = "fields"
            if builder:
                builder.problem(self.path, feed.taken[0].number, message, lost=1, kind=kind)
            feed.give_back()
            reader = csv.reader(feed, delimiter=self.delimiter, strict=True)


class _Feed:
    """Lines for the parser; those behind the first of a broken record can be given back."""

    def __init__(self, lines: Iterator[_Line]) -> None:
        self.taken: list[_Line] = []
        self._lines = lines
        self._again: deque[_Line] = deque()
        self._held = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self._held = self._held + len(line.text) if self.taken else len(line.text)
        self.taken.append(line)
        if self._held > _RECORD_LIMIT:
            raise _EndlessError("no end of the record in sight")
        return line.text

    def give_back(self) -> None:
        """Let the lines after the first be read again."""
        self._again.extendleft(reversed(self.taken[1:]))


def _lines(path: Path, builder: RolloutBuilder | None) -> Iterator[_Line]:
    for block in blocks(path, builder):
        data = bytes(block.data)
        lines = data.removesuffix(b"\n").split(b"\n") if data else []
        for number, raw in enumerate(lines, block.first):
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                text = raw.decode("utf-8", "replace")
                if builder:
                    message = "not UTF-8; what cannot be decoded is shown as \ufffd"
                    builder.problem(path, number, message)
            yield _Line(number, (text.removeprefix(_BOM) if number == 1 else text) + "\n")


def _header(line: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(name.strip() for name in next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        return ()

"""Files of problems as rows of plain objects: JSONL, a JSON list, CSV, TSV, Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from buttress.errors import InputError
from buttress.logs import files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import parquet
from buttress.logs.formats.csv_file import CsvFile
from buttress.logs.formats.lines import blocks

Found = Iterator[tuple[str, dict[str, Any]]]
_SAID = 5


@dataclass(frozen=True)
class Table:
    """Rows as they stand, with where each was found.

    Attributes
    ----------
    rows
        One mapping per row.
    places
        ``file:line`` of each row.
    columns
        Every column that a row has.
    problems
        What could not be read.
    """

    rows: list[dict[str, Any]]
    places: list[str]
    columns: tuple[str, ...]
    problems: tuple[str, ...] = ()


def read_table(name: str) -> Table:
    """Read a file, or every file of a pattern; a broken line costs itself alone.

    Raises `InputError` where no file can be read.
    """
    builder = RolloutBuilder()
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    for path in files.expand(name):
        for place, row in _read(path, builder):
            rows.append(row)
            places.append(place)
    columns = dict.fromkeys(key for row in rows for key in row)
    problems = tuple(
        f"{one.file}:{one.line}: {one.message}" if one.line else f"{one.file}: {one.message}"
        for one in builder.problems.all()
    )
    if not rows:
        raise InputError(f"no row could be read from {name}. {'; '.join(problems[:_SAID])}".strip())
    return Table(rows, places, tuple(columns), problems)


def _read(path: Path, builder: RolloutBuilder) -> Found:
    try:
        head = files.head(path)
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")
        return iter(())
    if why := files.foreign(head):
        builder.problem(path, 0, why)
        return iter(())
    if head.startswith(parquet.MAGIC):
        return _parquet(path, builder)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        return _json(path, builder)
    if start.startswith(b"{"):
        return _jsonl(path, builder)
    return _csv(path, head, builder)


def _jsonl(path: Path, builder: RolloutBuilder) -> Found:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for block in blocks(path, builder):
        for number, line in block.lines():
            try:
                yield f"{path}:{number}", decode(line.removeprefix(b"\xef\xbb\xbf"))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
                builder.problem(path, number, f"no JSON object, line left out: {fault}")


def _json(path: Path, builder: RolloutBuilder) -> Found:
    with files.Opened(path) as file:
        text = b"".join(iter(lambda: file.read(files.CHUNK), b""))
    try:
        rows = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=list[Any])
    except (msgspec.MsgspecError, RecursionError) as fault:
        builder.problem(path, 0, f"not a JSON list of objects: {fault}")
        return
    for at, row in enumerate(rows):
        if isinstance(row, dict):
            yield f"{path} entry {at}", row
        else:
            builder.problem(path, 0, f"entry {at} is no object, left out")


def _csv(path: Path, head: bytes, builder: RolloutBuilder) -> Found:
    table = CsvFile.of(path, head)
    if table is None:
        builder.problem(path, 0, "neither JSONL, CSV nor Parquet")
        return
    for chunk in table.chunks(builder):
        names, columns = list(chunk.columns), list(chunk.columns.values())
        for line, values in zip(chunk.lines, zip(*columns, strict=True), strict=True):
            yield f"{path}:{line}", dict(zip(names, values, strict=True))


def _parquet(path: Path, builder: RolloutBuilder) -> Found:
    try:
        rows = parquet.scan(path).collect().to_dicts()
    except parquet.FAULTS as fault:
        builder.problem(path, 0, parquet.damage(path, fault))
        return
    for at, row in enumerate(rows, 1):
        yield f"{path} row {at}", row

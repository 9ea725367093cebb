"""The engine of the JSONL formats: files to chunks of columns, whatever the columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.decode import RowDecoder, any_json
from buttress.logs.lines import Block, blocks
from buttress.logs.prose import text_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How the rows of a file become rollouts.

    Attributes
    ----------
    columns
        Canonical name -> column of the file.
    constants
        Canonical name -> value that every row of the file has.
    structured
        Columns with lists or objects in place of text, found by the engine.
    converts
        Steps from the decoded columns to those of the builder, where a format packs its own.
    """

    columns: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)
    structured: frozenset[str] = frozenset()
    converts: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What the decoder depends on."""
        return (*self.columns.items(), self.structured)


# From a row with every key that was seen (and an example value each) to the plan; None where
# such rows are no rollouts.
Planner = Callable[[Row, Path], Plan | None]


class JsonlRollouts:
    """Reads files of one JSON object per rollout; each schema gets its plan.

    Parameters
    ----------
    builder
        Takes the columns and the problems.
    plan
        What the format makes of the keys of a row.
    """

    def __init__(self, builder: RolloutBuilder, plan: Planner) -> None:
        self._builder = builder
        self._plan = plan
        self._decoders: dict[tuple[Any, ...], RowDecoder] = {}
        self._before: dict[str, str] = {}

    def read(self, path: Path) -> None:
        """Read one file; whatever is broken becomes a problem."""
        texts = TextColumns()
        schema = _Schema(partial(self._planned, path=path))
        file = self._builder.open(path, texts.fetch)
        for block in blocks(path, self._builder):
            for part, plan in schema.parts(block):
                if plan is None:
                    message = "no rollouts: no line looked at has a reward or a completion"
                    self._builder.problem(path, part.first, message)
                    continue
                texts.add(plan.columns)
                self._note_change(plan.columns, path, part.first)
                self._take(file, path, part, plan)

    def _planned(self, row: Row, path: Path) -> Plan | None:
        plan = self._plan(row, path)
        if plan is None:
            return None
        structured = {name for name in plan.columns.values() if isinstance(row[name], list | dict)}
        return replace(plan, structured=frozenset(structured))

    def _take(self, file: int, path: Path, part: Block, plan: Plan) -> None:
        decoder = self._decoders.get(plan.key)
        if decoder is None:
            decoder = self._decoders[plan.key] = RowDecoder(plan.columns, plan.structured)
        decoded = decoder.decode(part)
        for fault in decoded.faults:
            message = f"{fault.kind}: {fault.detail}"
            self._builder.problem(path, fault.line, message, lost=int(fault.lost), kind=fault.kind)
        columns = decoded.columns
        for convert in plan.converts:
            columns = convert(columns)
        self._builder.add(file, decoded.lines, plan.constants | columns)

    def _note_change(self, columns: dict[str, str], path: Path, line: int) -> None:
        """Say once per file that rows from here on have other columns than before."""
        before, self._before = self._before, columns
        if not before or before == columns:
            return
        changes = [
            f"{name} is read from {column}, before from {before[name]}"
            for name, column in columns.items()
            if before.get(name, column) != column
        ]
        changes += [f"{name} appears" for name in columns if name not in before]
        changes += [f"{name} is gone" for name in before if name not in columns]
        message = f"mixed schemas: from about here on {'; '.join(changes)}"
        self._builder.problems.once((path, "schema"), str(path), line, message)


class _Schema:
    """Follows the keys of a file's rows and keeps the plan for them."""

    def __init__(self, plan: Callable[[Row], Plan | None]) -> None:
        self._plan_of = plan
        self._seen: Row = {}
        self._known: set[frozenset[str]] = set()
        self._plan: Plan | None = None

    def parts(self, block: Block) -> Iterator[tuple[Block, Plan | None]]:
        """Yield the block with its plan, cut where one meaning changes its column."""
        fresh = [line for line in looks(block) if _keys(line) not in self._known]
        rows = [row for row in map(_row, fresh) if row is not None]
        if self._plan is None and not any(map(self._plan_of, rows)):
            rows += self._first_rollout(block)
        if not rows:
            yield block, self._plan
            return
        merged = self._seen | {k: v for row in rows for k, v in row.items() if v is not None}
        merged = dict.fromkeys((key for row in rows for key in row), None) | merged
        plan = self._plan_of(merged)
        if any(_conflict(self._plan_of(row), plan) for row in rows):
            yield from self._apart(block, rows)
            return
        self._seen, self._plan = merged, plan
        self._known.update(frozenset(row) for row in rows)
        yield block, plan

    def _first_rollout(self, block: Block) -> list[Row]:
        tried: set[frozenset[str]] = set()
        for _, line in block.lines():
            row = _row(line)
            if row is not None and frozenset(row) not in tried:
                tried.add(frozenset(row))
                if self._plan_of(row):
                    return [row]
        return []

    def _apart(self, block: Block, rows: list[Row]) -> Iterator[tuple[Block, Plan | None]]:
        """Start anew from rows of one schema, or halve a block that holds several."""
        self._seen, self._plan = {}, None
        self._known.clear()
        if len({frozenset(row) for row in rows}) == 1 or len(block) == 1:
            self._seen = rows[0]
            self._plan = self._plan_of(rows[0])
            yield block, self._plan
            return
        for half in block.split(len(block) // 2):
            yield from self.parts(half)


class TextColumns:
    """Remembers which columns of a file hold the texts, and reads them back."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, None]] = {"prompt": {}, "completion": {}}

    def add(self, columns: dict[str, str]) -> None:
        """Take the text columns of one more plan of the file."""
        for name, known in self._columns.items():
            if name in columns:
                known[columns[name]] = None

    def fetch(self, path: Path, rows: Sequence[int]) -> list[Text]:
        """Return the texts of the rows (line numbers, ascending) of the file."""
        found, wanted = [], iter(rows)
        row = next(wanted, None)
        for block in blocks(path):
            if row is None:
                break
            while row is not None and row < block.first + len(block):
                found.append(self._text(block.line(row - block.first)))
                row = next(wanted, None)
        return found + [Text("", "")] * (len(rows) - len(found))

    def _text(self, line: bytes) -> Text:
        row = _row(line) or {}
        prompt, completion = (
            next((text for name in names if (text := text_of(row.get(name)))), "")
            for names in self._columns.values()
        )
        return Text(prompt, completion)


def looks(block: Block) -> list[bytes]:
    """Return a few lines of a block, spread over it, the first and the last among them."""
    last = len(block) - 1
    return [block.line(at) for at in sorted({last * part // 4 for part in range(5)})]


_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _keys(line: bytes) -> frozenset[str]:
    try:
        return frozenset(_KEYS.decode(line))
    except (msgspec.MsgspecError, RecursionError):
        return frozenset(_row(line) or ())


def _row(line: bytes) -> Row | None:
    try:
        found = any_json(line.decode("utf-8", "replace").encode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _conflict(own: Plan | None, merged: Plan | None) -> bool:
    """Return whether a row has a column that the plan for all rows would pass over."""
    if own is None or merged is None:
        return False
    return any(merged.columns.get(name) != column for name, column in own.columns.items())

"""The engine of the JSONL formats: files to chunks of columns, whatever the columns are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.decode import Decoded, RowDecoder
from buttress.logs.formats.lines import Block, blocks
from buttress.logs.prose import text_of
from buttress.logs.schema import Plan, Planner, Row, Schema, row_of

_NO_ROLLOUTS = "no rollouts: no line here has a reward or a completion"


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
        self._unheard = RolloutBuilder(builder.options)
        self._decoders: dict[tuple[Any, ...], RowDecoder] = {}

    def read(self, path: Path) -> None:
        """Read one file; whatever is broken becomes a problem."""
        texts = TextColumns()
        used: set[tuple[Any, ...]] = set()
        schema = Schema(partial(self._planned, path=path))
        file = self._builder.open(path, texts.fetch)
        for block in blocks(path, self._builder):
            for decoded, plan in self._decoded(block, schema, path):
                if plan.key not in used:
                    used.add(plan.key)
                    texts.add(plan.columns)
                    self._plan(plan.example, path, builder=self._builder)
                if len(decoded.lines):
                    self._builder.read_from(plan.columns, path, int(decoded.lines[0]))
                self._take(file, path, decoded, plan)

    def _planned(self, row: Row, path: Path) -> Plan | None:
        # most plans are only compared; what is to be said is said of those that are used
        plan = self._plan(row, path, builder=self._unheard)
        if plan is None:
            return None
        structured = {name for name in plan.columns.values() if isinstance(row[name], list | dict)}
        return replace(plan, structured=frozenset(structured), example=row)

    def _decoded(self, block: Block, schema: Schema, path: Path) -> Iterator[tuple[Decoded, Plan]]:
        for part, plan in schema.parts(block):
            if plan is None:
                self._builder.problem(path, part.first, _NO_ROLLOUTS)
                continue
            decoded = self._decoder(plan).decode(part)
            if decoded.gaps and schema.unforeseen(part):
                for some, own in schema.again(part):
                    if own is not None:
                        yield self._decoder(own).decode(some), own
            else:
                yield decoded, plan

    def _decoder(self, plan: Plan) -> RowDecoder:
        if plan.key not in self._decoders:
            self._decoders[plan.key] = RowDecoder(plan.columns, plan.structured)
        return self._decoders[plan.key]

    def _take(self, file: int, path: Path, decoded: Decoded, plan: Plan) -> None:
        for fault in decoded.faults:
            message = f"{fault.kind}: {fault.detail}"
            self._builder.problem(path, fault.line, message, lost=int(fault.lost), kind=fault.kind)
        columns = decoded.columns
        for convert in plan.converts:
            columns = convert(columns)
        self._builder.add(file, decoded.lines, plan.constants | columns)


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
        row = row_of(line) or {}
        prompt, completion = (
            next((text for name in names if (text := text_of(row.get(name)))), "")
            for names in self._columns.values()
        )
        return Text(prompt, completion)

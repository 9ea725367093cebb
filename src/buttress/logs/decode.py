"""JSON lines to columns: whole blocks at once where they are clean, line by line where not."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from buttress.logs import finish
from buttress.logs.columns import is_telling
from buttress.logs.formats.lines import Block, valid_utf8
from buttress.logs.prose import JsonTexts, text_of
from buttress.logs.values import short

_NULL = msgspec.Raw(b"null")
_ABSENT = float("nan")  # told from null by identity
# Python writes bare NaN. A quote without a backslash before it ends a string, so that this colon
# belongs to the object and not to a text.
_NAN = re.compile(rb'(?<!\\)"(\s*:\s*)-?NaN(?=\s*[,}])')
# Type and default of a field. A completion stays as it is encoded: hashed, never built.
_Kind = tuple[Any, Any]
_NUMBER: _Kind = (float | bool | None, _ABSENT)
_ENCODED: _Kind = (msgspec.Raw, _NULL)
_IDENTITY: _Kind = (str | int | float | None, None)
_TEXT_KINDS: dict[str, _Kind] = {
    "group": _IDENTITY,
    "prompt_id": _IDENTITY,
    "prompt": _ENCODED,
    "completion": _ENCODED,
    finish.NAME: (Any, None),
}
_FAULTS = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class Fault(NamedTuple):
    """A line that is no rollout, or one with a blemish."""

    line: int
    kind: str
    detail: str
    lost: bool


class Decoded(NamedTuple):
    """Columns of the rows that could be read, their line numbers, and what was wrong."""

    lines: NDArray[np.int32]
    columns: dict[str, Any]
    faults: list[Fault]
    gaps: bool  # some rows lack a number by which the others are known as rollouts


class RowDecoder:
    """Decodes only the named columns of JSON lines.

    Texts stay encoded: a completion is hashed and never built. Numbers of a clean block are
    arrays; of a block with faults they are what stood there, for the builder to judge.

    Parameters
    ----------
    columns
        Canonical name -> name in the file.
    structured
        Columns of the file that hold lists or objects (chat messages) where text belongs.
    """

    def __init__(
        self, columns: Mapping[str, str], structured: Collection[str] = frozenset()
    ) -> None:
        self.columns = dict(columns)
        self._fields = {
            column: f"f{at}" for at, column in enumerate(dict.fromkeys(columns.values()))
        }
        numeric = {column for name, column in columns.items() if name not in _TEXT_KINDS}
        self._kinds: dict[str, _Kind] = {}
        for name, column in columns.items():
            kind = _ENCODED if column in structured else _TEXT_KINDS.get(name, _NUMBER)
            self._kinds[column] = _NUMBER if column in numeric else kind
        fields = [(self._fields[column], *kind) for column, kind in self._kinds.items()]
        rename = {field: column for column, field in self._fields.items()}
        self._decoder: msgspec.json.Decoder[Any] | None = None
        try:
            self._row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
            self._decoder = msgspec.json.Decoder(self._row)
        except ValueError:  # a name with a quote or a control character: each line is read loosely
            self._row = msgspec.defstruct("Row", fields, gc=False)
        telling = [name for name in columns if is_telling(name)]
        self._telling_texts = [name for name in telling if name in _TEXT_KINDS]
        self._telling_numbers = [name for name in telling if name not in _TEXT_KINDS]

    def decode(self, block: Block) -> Decoded:
        """Return the rows of a block."""
        rows = self._at_once(block)
        if rows is None:
            return self._by_line(block)
        return self._columns(rows, block.numbers(), [], typed=True)

    def _at_once(self, block: Block) -> list[Any] | None:
        if self._decoder is None or not valid_utf8(block.data):
            return None
        try:
            rows = self._decoder.decode_lines(block.data)
        except _FAULTS:
            try:
                rows = self._decoder.decode_lines(_NAN.sub(rb'"\1null', bytes(block.data)))
            except _FAULTS:
                return None
        # blank lines, two objects on a line or one over two lines spoil the line numbers
        return rows if len(rows) == len(block) else None

    def _by_line(self, block: Block) -> Decoded:
        rows: list[Any] = []
        at: list[int] = []
        last = int(block.numbers()[-1])
        faults: list[Fault] = []
        for number, line in block.lines():
            try:
                rows.append(self._line(line, number, faults))
                at.append(number)
            except _FAULTS as fault:
                torn = block.torn and number == last
                kind = "the last line is cut off" if torn else "not a JSON object"
                faults.append(Fault(number, kind, str(fault) or type(fault).__name__, lost=True))
        return self._columns(rows, np.array(at, dtype=np.int32), faults, typed=False)

    def _line(self, line: bytes, number: int, faults: list[Fault]) -> Any:
        if not valid_utf8(line):
            faults.append(Fault(number, "bytes that are not UTF-8", "replaced", lost=False))
            line = line.decode("utf-8", "replace").encode()
        if self._decoder is None:
            return self._loose(line)
        for attempt in (line, _NAN.sub(rb'"\1null', line)):
            try:
                return self._decoder.decode(attempt)
            except _FAULTS:
                pass
        return self._loose(line)

    def _loose(self, line: bytes) -> Any:
        found = any_json(line)
        if not isinstance(found, dict):
            raise TypeError(f"found {short(found)}")
        row = self._row()
        for column, field in self._fields.items():
            if column in found:
                value = found[column]
                setattr(row, field, _suited(value, self._kinds[column]))
        return row

    def _columns(
        self, rows: list[Any], lines: NDArray[np.int32], faults: list[Fault], *, typed: bool
    ) -> Decoded:
        # faster than to ask each row for each of its fields
        fields = list(map(list, zip(*map(astuple, rows), strict=True)))
        of = dict(zip(self._fields, fields or [[] for _ in self._fields], strict=True))
        found = {name: of[column] for name, column in self.columns.items()}
        arrays = {
            name: np.array(values, dtype=np.float64)
            for name, values in found.items()
            if typed and self._kinds[self.columns[name]] is _NUMBER
        }
        absent = [_absent(found[name], arrays.get(name)) for name in self._telling_numbers]
        others = set.intersection(*absent) if absent else set(range(len(rows)))
        for name in self._telling_texts:
            others = others and others & _absent(found[name], None)
        if others:
            return self._without(others, rows, lines, faults, typed=typed)
        columns: dict[str, Any] = found | arrays
        for name, values in found.items():
            if self._kinds[self.columns[name]] is _ENCODED:
                columns[name] = JsonTexts(values)
        return Decoded(lines, columns, faults, gaps=any(absent))

    def _without(
        self,
        others: set[int],
        rows: list[Any],
        lines: NDArray[np.int32],
        faults: list[Fault],
        *,
        typed: bool,
    ) -> Decoded:
        """Leave out objects that have none of the telling columns."""
        kind = "a JSON object without a reward or a completion"
        faults += [Fault(int(lines[at]), kind, "left out", lost=False) for at in sorted(others)]
        keep = [at for at in range(len(rows)) if at not in others]
        found = self._columns([rows[at] for at in keep], lines[keep], faults, typed=typed)
        return found._replace(gaps=True)


def _absent(values: list[Any], array: NDArray[np.float64] | None) -> set[int]:
    """Return the places where a column was not there; null is there."""
    if array is not None and not np.isnan(array).any():
        return set()
    return {at for at, value in enumerate(values) if value is _ABSENT or value is _NULL}


TEXTS = tuple(_TEXT_KINDS)


def any_json(line: bytes) -> Any:
    """Return what a line of JSON holds, also with Python's NaN and Infinity.

    Raises one of ``msgspec.MsgspecError``, ``ValueError``, ``RecursionError``.
    """
    try:
        return msgspec.json.decode(line)
    except msgspec.MsgspecError:
        # as text, since of bytes it would guess the encoding
        found = json.loads(str(line, "utf-8-sig"), parse_int=_integer)
    if b"\\u" in line:
        # half a surrogate pair is legal in JSON and cannot be written anywhere
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return found


def _integer(digits: str) -> int | float:
    # Python refuses to read more digits than 4300; infinite is said where it matters
    return int(digits) if len(digits) < 1000 else float(digits)


def _suited(value: Any, kind: _Kind) -> Any:
    if kind is _NUMBER or kind[0] is Any:
        return value
    text = text_of(value)
    return msgspec.json.encode(text) if kind is _ENCODED else text

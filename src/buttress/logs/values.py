"""From the values that a log holds to arrays: numbers, codes of texts, fingerprints."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.problems import Problems

_PLAIN = {float, int, bool, type(None)}
_NULLS = {"", "nan", "none", "null", "na", "n/a"}
_FILL: dict[str, Any] = {"step": 0, "sample": -1, "group": -1, "prompt": -1, "prompt_id": -1}


class Place(NamedTuple):
    """Where a chunk stands: its file and the line of each of its rows."""

    problems: Problems
    file: str
    rows: NDArray[np.int32]


class Interned:
    """Gives each distinct text of a column a code; -1 is unknown.

    Of prompts only a hash is kept, so that a run of any size stays small.
    """

    def __init__(self, *, texts: bool) -> None:
        self.labels: list[str] = []
        self._texts = texts
        self._seen: dict[Any, int] = {(hash(None) if texts else None): -1}

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Return the codes of a column: list of texts and None, or codes into labels."""
        if hasattr(column, "labels"):
            table = np.append(self.codes(list(column.labels)), np.int32(-1))
            return table[np.asarray(column.codes)]
        column = column.tolist() if hasattr(column, "tolist") else column
        try:
            keys = list(map(hash, column)) if self._texts else column
            found = list(map(self._seen.get, keys))
        except TypeError:  # lists and mappings have no hash
            return self.codes([text_of(value) for value in column])
        if None in found:
            found = [
                self._new(key, value) if code is None else code
                for code, key, value in zip(found, keys, column, strict=True)
            ]
        return np.array(found, dtype=np.int32)

    def _new(self, key: Any, value: Any) -> int:
        known = self._seen.get(key)
        if known is not None:
            return known
        text = text_of(value)
        if text is None:
            self._seen[key] = -1
            return -1
        canonical = hash(text) if self._texts else text
        code = self._seen.setdefault(canonical, len(self.labels))
        self._seen[key] = code
        if code == len(self.labels):
            self.labels.append(text_digest(text) if self._texts else text)
        return code


class Table:
    """Chunks of columns, joined at the end; a column that a chunk lacks is unknown there."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, dict[str, Any]]] = []

    def add(self, n_rows: int, chunk: dict[str, Any]) -> None:
        """Add a chunk; each column is an array of `n_rows` or one value for all of them."""
        if n_rows:
            self._chunks.append((n_rows, chunk))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the joined columns and forget the chunks."""
        names = dict.fromkeys(name for _, chunk in self._chunks for name in chunk)
        joined = {name: self._joined(name) for name in names}
        self._chunks.clear()
        return joined

    def _joined(self, name: str) -> NDArray[Any]:
        parts = []
        for n_rows, chunk in self._chunks:
            part = chunk.pop(name, None)
            if part is None and name == "completion":
                part = unknown_fingerprints(n_rows)
            elif part is None:
                part = np.int32(_FILL[name]) if name in _FILL else np.float64(np.nan)
            parts.append(part if np.ndim(part) else np.full(n_rows, part))
        return np.concatenate(parts)


def numbers(where: Place, name: str, column: Any) -> Any:
    """Return a column as float64 with NaN for unknown; one number stands for all rows."""
    array = _plain_numbers(column)
    if array is None:
        array = np.array([_number(where, name, at, one) for at, one in enumerate(column)])
    for at in np.flatnonzero(np.isinf(array)):
        where.problems.add(where.file, _line(where, at), f"{name} is infinite; taken as unknown")
    return np.where(np.isinf(array), np.nan, array) if np.isinf(array).any() else array


def integers(where: Place, name: str, column: Any) -> Any:
    """Return a column as int64; what is unknown or no whole number becomes the fill value."""
    if isinstance(column, int) or (hasattr(column, "dtype") and column.dtype.kind in "iu"):
        return np.asarray(column, dtype=np.int64)
    array = np.asarray(numbers(where, name, column))
    with np.errstate(invalid="ignore"):
        whole = (np.abs(array) < 2.0**53) & (array == np.floor(array))
    for at in np.flatnonzero(~whole & ~np.isnan(array)):
        where.problems.add(where.file, _line(where, at), f"{name} is not a whole number")
    if name == "step":
        for at in np.flatnonzero(np.isnan(array)):
            where.problems.add(where.file, _line(where, at), "no step; taken as step 0")
    return np.where(whole, array, _FILL[name]).astype(np.int64)


def fingerprints(column: Any) -> NDArray[np.int64]:
    """Return a 64-bit hash per text, equal for equal texts of this process; unknown equals none."""
    if hasattr(column, "dtype") and column.dtype.kind in "iu":
        return column.astype(np.int64)
    column = column.tolist() if hasattr(column, "tolist") else column
    try:
        hashes = np.fromiter(map(hash, column), dtype=np.int64, count=len(column))
    except TypeError:
        return fingerprints([text_of(value) for value in column])
    missing = [at for at, one in enumerate(column) if one is None] if None in column else []
    hashes[missing] = unknown_fingerprints(len(missing))
    return hashes


_unknown = 0


def unknown_fingerprints(count: int) -> NDArray[np.int64]:
    """Return hashes that equal no other: a text that is not known repeats nothing."""
    global _unknown
    first, _unknown = _unknown, _unknown + count
    return np.fromiter((hash((at, "unknown")) for at in range(first, _unknown)), np.int64, count)


def text_of(value: Any) -> str | None:
    """Return a value as text: chat messages become their contents, a whole float an integer.

    >>> text_of([{"role": "user", "content": "1 + 1?"}])
    '1 + 1?'
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return None if math.isnan(value) else f"{value:.17g}"
    if isinstance(value, Sequence):
        return "\n".join(filter(None, map(_message, value)))
    if hasattr(value, "tolist"):
        return text_of(value.tolist())
    return _message(value)


def text_digest(text: str) -> str:
    """Return the stable short identity of a prompt's text."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def short(value: Any) -> str:
    """Return a value for a message, cut at 40 characters."""
    text = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."


def _message(value: Any) -> str | None:
    if isinstance(value, dict):
        if "content" in value:
            return text_of(value["content"])
        if "text" in value:
            return text_of(value["text"])
        return json.dumps(value, sort_keys=True, default=str)
    return text_of(value) if isinstance(value, str | float | list | tuple | None) else str(value)


def _plain_numbers(column: Any) -> Any:
    if hasattr(column, "dtype") and column.dtype.kind in "fiub":
        return np.asarray(column, dtype=np.float64)
    if isinstance(column, float | int):
        return np.float64(column)
    if isinstance(column, list) and set(map(type, column)) <= _PLAIN:
        try:
            return np.array(column, dtype=np.float64)
        except OverflowError:
            return None
    return None


def _number(where: Place, name: str, at: int, value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _spelled(where, name, at, value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        kind = f"{name} is not a number"
        message = f"{kind}: {_too_large(value) or short(value)}; taken as unknown"
        where.problems.add(where.file, _line(where, at), message, kind=kind)
        return math.nan


def _too_large(value: Any) -> str:
    return "an integer beyond the range of a float" if isinstance(value, int) else ""


def _spelled(where: Place, name: str, at: int, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
        if value.strip().lower() not in _NULLS:
            kind = f"{name} is not a number"
            message = f"{kind}: {short(value)}; taken as unknown"
            where.problems.add(where.file, _line(where, at), message, kind=kind)
        return number
    message = f"{name} holds numbers written as text, such as {short(value)}; read as numbers"
    where.problems.once((where.file, name), where.file, _line(where, at), message)
    return number


def _line(where: Place, at: Any) -> int:
    return int(where.rows[at]) if len(where.rows) else 0

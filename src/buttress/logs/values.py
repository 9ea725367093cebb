"""From the numbers that a log holds to arrays; what is no number is unknown and said."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.problems import Problems
from buttress.logs.prose import unknown_fingerprints

_PLAIN = {float, int, bool, type(None)}
NULLS = {"", "nan", "none", "null", "na", "n/a"}
_FEW, _MANY = 64, 1024  # rows of a small chunk, chunks that are joined early
_FILL: dict[str, Any] = {"step": 0, "sample": -1, "group": -1, "prompt": -1, "prompt_id": -1}


class Place(NamedTuple):
    """Where a chunk stands: its file and the line of each of its rows."""

    problems: Problems
    file: str
    rows: NDArray[np.int32]


class Table:
    """Chunks of columns, joined at the end; a column that a chunk lacks is unknown there."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, dict[str, Any]]] = []
        self._small = 0  # chunks of a few rows at the end

    def add(self, n_rows: int, chunk: dict[str, Any]) -> None:
        """Add a chunk; each column is an array of `n_rows` or one value for all of them."""
        if not n_rows:
            return
        self._chunks.append((n_rows, chunk))
        self._small = self._small + 1 if n_rows < _FEW else 0
        if self._small == _MANY:
            # a file for each rollout would otherwise cost its arrays and not its numbers
            tail = self._chunks[-_MANY:]
            self._chunks[-_MANY:] = [(sum(count for count, _ in tail), _joined(tail))]
            self._small = 0

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the joined columns and forget the chunks."""
        joined = _joined(self._chunks)
        self._chunks.clear()
        return joined


def _joined(chunks: list[tuple[int, dict[str, Any]]]) -> dict[str, NDArray[Any]]:
    """Return each column of all chunks, taken out of them one after the other."""
    names = dict.fromkeys(name for _, chunk in chunks for name in chunk)
    return {name: _column(chunks, name) for name in names}


def _column(chunks: list[tuple[int, dict[str, Any]]], name: str) -> NDArray[Any]:
    parts = []
    for n_rows, chunk in chunks:
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
    infinite = np.isinf(array)
    if not infinite.any():
        return array
    for at in np.flatnonzero(infinite):
        where.problems.add(where.file, _line(where, at), f"{name} is infinite; taken as unknown")
    return np.where(infinite, np.nan, array)


def integers(where: Place, name: str, column: Any) -> Any:
    """Return a column as int64; what is unknown or no whole number becomes the fill value."""
    if isinstance(column, int) or (hasattr(column, "dtype") and column.dtype.kind in "iu"):
        return np.asarray(column, dtype=np.int64)
    array = np.asarray(numbers(where, name, column))
    with np.errstate(invalid="ignore"):
        exact = array.astype(np.int64)
    if (exact == array).all() and (not exact.size or abs(exact).max() < 1 << 53):
        return exact
    with np.errstate(invalid="ignore"):
        whole = (np.abs(array) < 2.0**53) & (array == np.floor(array))
    for at in np.flatnonzero(~whole & ~np.isnan(array)):
        where.problems.add(where.file, _line(where, at), f"{name} is not a whole number")
    if name == "step":
        for at in np.flatnonzero(np.isnan(array)):
            where.problems.add(where.file, _line(where, at), "no step; taken as step 0")
    return np.where(whole, array, _FILL[name]).astype(np.int64)


def short(value: Any) -> str:
    """Return a value for a message, cut at 40 characters."""
    text = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."


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
        if value.strip().lower() not in NULLS:
            kind = f"{name} is not a number"
            message = f"{kind}: {short(value)}; taken as unknown"
            where.problems.add(where.file, _line(where, at), message, kind=kind)
        return number
    message = f"{name} holds numbers written as text, such as {short(value)}; read as numbers"
    where.problems.once((where.file, name), where.file, _line(where, at), message)
    return number


def _line(where: Place, at: Any) -> int:
    return int(where.rows[at]) if len(where.rows) else 0

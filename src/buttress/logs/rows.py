"""What a reader can tell from the first rows of a file and from its name."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from buttress.logs.decode import any_json
from buttress.logs.files import plain_stem

_ROWS = 8
_START = 10  # bytes by which a line that begins like no other is told


@lru_cache(maxsize=4)
def first_rows(head: bytes) -> tuple[dict[str, Any], ...]:
    """Return the first eight JSON objects, then one of each other beginning.

    Each reader asks for the same head, hence the cache.
    """
    rows: list[dict[str, Any]] = []
    starts: set[bytes] = set()
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.startswith(b"{") or (len(rows) >= _ROWS and line[:_START] in starts):
            continue
        try:
            rows.append(any_json(line.decode("utf-8", "replace").encode()))
        except (ValueError, RecursionError):
            continue
        starts.add(line[:_START])
        if len(rows) == 2 * _ROWS:
            break
    return tuple(rows)


def numeric(value: Any) -> bool:
    """Return whether a value is a number, a boolean, null or text that spells a number."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return value is None or isinstance(value, int | float | Decimal)


def number_or_nan(value: Any) -> float:
    """Return a number or boolean as float; NaN for anything else and beyond a float's range."""
    try:
        return float(value) if isinstance(value, int | float | Decimal) else math.nan
    except OverflowError:
        return math.nan


def step_of_name(path: Path) -> int:
    """Return the last number in a file's name, 0 without one.

    >>> step_of_name(Path("run2/global_step_120.jsonl.gz"))
    120
    """
    numbers = re.findall(r"\d+", plain_stem(path))
    return int(numbers[-1][:15]) if numbers else 0

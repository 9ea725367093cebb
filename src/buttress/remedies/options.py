"""Checks of options: a bad value fails when the remedy is built, with what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from buttress.errors import UsageError


def number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, above: bool = False
) -> None:
    """Require a finite number in ``[low, high]``; with `above`, strictly above `low`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and low <= value <= high and (value > low or not above):
        return
    raise UsageError(f"{name} must be a number {_range(low, high, above)}; got {value!r}")


def whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Require an integer in ``[low, high]``."""
    top = math.inf if high is None else high
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= top:
        return
    raise UsageError(f"{name} must be an integer {_range(low, top, False)}; got {value!r}")


def choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Require one of the allowed values."""
    allowed = list(allowed)
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise UsageError(f"{name} must be one of {listed}; got {value!r}")


def bounds(name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    """Require a pair of numbers in order, inside ``[low, high]``, and return it."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a pair (low, high); got {value!r}") from None
    number(f"{name}[0]", first, low, high)
    number(f"{name}[1]", second, first, high)
    return float(first), float(second)


def pair(name: str, value: Any, low: float, *, above: bool = False) -> tuple[float, float]:
    """Require a number, which stands for both, or two of them, and return the two."""
    both = (value, value) if isinstance(value, int | float) else value
    if not (isinstance(both, tuple | list) and len(both) == 2):
        raise UsageError(f"{name} must be a number or two of them; got {value!r}")
    for one in both:
        number(name, one, low, above=above)
    return float(both[0]), float(both[1])


def _range(low: float, high: float, above: bool) -> str:
    if low == -math.inf and high == math.inf:
        return "that is finite"
    if high == math.inf:
        return f"{'above' if above else 'of at least'} {low:g}"
    return f"in {'(' if above else '['}{low:g}, {high:g}]"

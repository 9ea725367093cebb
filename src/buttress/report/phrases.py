"""Numbers as a reader meets them. Unknown is a dash, never a zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Integral, Real

import numpy as np

from buttress.report.hostile import safe_name, safe_text

DASH = "–"
LIST_SHOWN = 8


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with thousands separators and a few significant digits.

    Examples
    --------
    >>> [number(one) for one in (1234567, 0.41666, 1e-6, float("nan"), None)]
    ['1,234,567', '0.417', '1e-06', '–', '–']
    """
    if value is None or not isfinite(value):
        return DASH
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.{digits}g}"
    return f"{value:.{digits}g}"


def rate(value: float | None) -> str:
    """Return a rate in [0, 1] with two decimals; three where two would read 0 or 1.

    Examples
    --------
    >>> [rate(one) for one in (0.416, 1.0, 0.998, 0.0, None)]
    ['0.42', '1.00', '0.998', '0.00', '–']
    """
    if value is None or not isfinite(value):
        return DASH
    short = f"{value:.2f}"
    rounded_away = short in ("0.00", "1.00") and float(short) != value
    return f"{value:.3f}" if rounded_away else short


def percent(part: float | None, whole: float = 1) -> str:
    """Return a share in percent; 0% and 100% only where it is exactly that.

    Examples
    --------
    >>> [percent(*one) for one in ((1, 3), (0, 5), (5, 5), (9999, 10000), (1, 10000), (0, 0))]
    ['33%', '0%', '100%', '>99.9%', '<0.1%', '–']
    """
    if part is None or not whole or not isfinite(part):
        return DASH
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "<0.1%"
    if 99.9 < share < 100:
        return ">99.9%"
    if 0 < share < 1 or 99 < share < 100:
        return f"{share:.1f}%"
    return f"{share:.0f}%"


def span(low: float | None, high: float | None) -> str:
    """Return an interval of rates, or a dash.

    Examples
    --------
    >>> span(0.351, 0.468)
    '0.35 to 0.47'
    """
    if low is None or high is None or not (isfinite(low) and isfinite(high)):
        return DASH
    return f"{rate(low)} to {rate(high)}"


def steps(bounds: tuple[int, int] | None) -> str:
    """Return the steps that a finding concerns; empty where it concerns none.

    Examples
    --------
    >>> steps((1, 40)), steps((7, 7)), steps(None)
    ('steps 1 to 40', 'step 7', '')
    """
    if bounds is None:
        return ""
    first, last = bounds
    return f"step {first}" if first == last else f"steps {first} to {last}"


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "group"), count(1200, "group")
    ('1 group', '1,200 groups')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def value(given: object) -> str:
    """Return one entry of a finding's evidence as text, whatever it holds."""
    if isinstance(given, np.generic):
        given = given.item()
    if given is None:
        return DASH
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, Real):
        return number(float(given) if not isinstance(given, Integral) else given)  # type: ignore[arg-type]
    if isinstance(given, Mapping):
        return listed(f"{safe_name(key)}: {value(one)}" for key, one in given.items()) or "none"
    if isinstance(given, list | tuple | np.ndarray):
        return listed(value(one) for one in given) or "none"
    return safe_text(given)


def evidence(name: str, given: object) -> str:
    """Return an entry of a finding's evidence, with an interval as one.

    Examples
    --------
    >>> evidence("acr_interval", [0.401, 0.605]), evidence("acr_interval", [None, None])
    ('0.401 to 0.605', '–')
    """
    if name.endswith("interval") and isinstance(given, list | tuple) and len(given) == 2:
        low, high = map(value, given)
        return DASH if DASH in (low, high) else f"{low} to {high}"
    return value(given)


def listed(items: Iterable[str], shown: int = LIST_SHOWN) -> str:
    """Return items with commas, the first few and how many more.

    Examples
    --------
    >>> listed("abcde", shown=3)
    'a, b, c and 2 more'
    """
    items = list(items)
    more = len(items) - shown
    text = ", ".join(items[:shown])
    return f"{text} and {more:,} more" if more > 0 else text


def label(name: str) -> str:
    """Return the name of a number as words.

    Examples
    --------
    >>> label("longest_steps_above"), label("acr"), label("tied_between")
    ('longest steps above', 'ACR', 'all the same, in between')
    """
    if name == "tied_between":
        return "all the same, in between"
    words = safe_name(name).replace("_", " ")
    return " ".join("ACR" if word == "acr" else word for word in words.split(" "))

"""Checking a final answer with math-verify, without limits of its own: a process around it has."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from buttress.errors import MissingExtraError

_GSM8K = re.compile(r"####\s*(.+)")


class UnparsableError(Exception):
    """The answer of the data set is no mathematical expression."""


def math_checker() -> Callable[[str, Any], float]:
    """Return ``check(completion, answer)``: 1.0 where the completion's answer equals the right one.

    The last expression of a completion counts, what is boxed before the rest. A completion without
    an expression is wrong. An expression counts as its value: ``11 + 58`` is right for 69, so sums
    that a model may repeat are better judged by ``exact`` with a pattern. Of an answer in the style
    of GSM8K the part behind ``####`` counts.
    Raises `UnparsableError` where the right answer cannot be read.
    """
    try:
        from math_verify import parse, verify
    except ImportError:
        raise MissingExtraError.of("checking answers with math-verify", "math") from None
    # it warns on every call that its own limits are off
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)

    @lru_cache(maxsize=64)
    def parsed(answer: str) -> tuple[Any, ...]:
        found = next(
            filter(None, (parse(one, parsing_timeout=None) for one in _forms(answer))), None
        )
        if not found:
            raise UnparsableError(f"the right answer {answer[:60]!r} is no expression")
        return tuple(found)

    def check(completion: str, answer: Any) -> float:
        gold = list(parsed(final_answer(answer)))
        try:
            found = parse(completion, parsing_timeout=None)
            return float(verify(gold, found, timeout_seconds=None, raise_on_error=True))
        except MemoryError:
            raise
        except Exception:
            return 0.0  # two things that cannot be compared are not equal

    return check


def final_answer(answer: Any) -> str:
    """Return an answer as text; what stands behind ``####`` where that mark is there.

    >>> final_answer("6 * 7 = 42\\n#### 42"), final_answer(3)
    ('42', '3')
    """
    text = str(answer).strip()
    marked = _GSM8K.findall(text)
    return marked[-1].strip() if marked else text


def _forms(answer: str) -> tuple[str, ...]:
    """Return an answer in the ways in which math-verify may read it as mathematics."""
    bare = answer.replace("\\$", "").replace("$", "")
    marked = "\\boxed" in answer or answer.count("$") > 1
    return (answer, f"${bare}$") if marked else (f"${bare}$", answer)

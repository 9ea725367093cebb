"""A finding: what is wrong, how sure, what to do. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

Evidence = Mapping[str, object]  # numbers, strings, lists of them, or None for unknown


class Severity(IntEnum):
    """How bad; ordered."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The name in lower case, as it stands in reports."""
        return self.name.lower()


class Advice(NamedTuple):
    """One thing to do, in the order of cause."""

    action: str
    why: str
    cost: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found in one run.

    Attributes
    ----------
    steps
        First and last training step that it concerns, or None.
    evidence
        The numbers that the message speaks of, under stable names.
    advice
        What to do, first cause first.
    """

    rule: str
    code: str
    severity: Severity
    message: str
    evidence: Evidence
    advice: tuple[Advice, ...] = ()
    steps: tuple[int, int] | None = None

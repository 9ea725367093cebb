"""Sufficient statistics that add up: one body for a batch, a stream and a merge over ranks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance


class Statistics(Protocol):
    """Statistics of a set of groups; `a + b` are those of the union."""

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = ...) -> Self:
        """Collect the statistics of these groups."""
        ...

    def __add__(self, other: Self) -> Self: ...


class Additive:
    """Adds dataclass fields one by one: numbers by sum, dictionaries key by key."""

    def __add__(self, other: Self) -> Self:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return type(self)(*(_add(mine, theirs) for mine, theirs in pairs))


def _add(mine: Any, theirs: Any) -> Any:
    if not isinstance(mine, dict):
        return mine + theirs
    total = dict(mine)
    for key, value in theirs.items():
        total[key] = _add(total[key], value) if key in total else value
    return total


S = TypeVar("S", bound=Statistics)


class Stream(Generic[S]):
    """The stream form of a measure: statistics that grow with each batch.

    Examples
    --------
    >>> from buttress.measures import CollapseCounts
    >>> stream = Stream(CollapseCounts)
    >>> stream.update(Groups.from_nested([[1, 1], [0, 1]]))
    >>> stream.update(Groups.from_nested([[0, 0]]))
    >>> stream.total.tied, stream.total.eligible
    (2, 3)
    """

    def __init__(self, kind: type[S], tolerance: Tolerance = DEFAULT_TOLERANCE) -> None:
        self._kind = kind
        self.tolerance = tolerance
        self.total: S = kind.of(Groups.from_nested([]), tolerance)

    def update(self, groups: Groups) -> None:
        """Take in a batch."""
        self.total = self.total + self._kind.of(groups, self.tolerance)

    def merge(self, other: Stream[S]) -> None:
        """Take in what another stream (another rank) has seen."""
        if self.tolerance != other.tolerance:
            raise UsageError(f"cannot merge streams under {self.tolerance} and {other.tolerance}")
        self.total = self.total + other.total


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``, NaN where the whole is zero: unknown is not zero."""
    return part / whole if whole else float(np.nan)

"""Which steps were counted: ranges, so that a run of any length takes next to no memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

MOST = 1024  # ranges


class StepRanges:
    """A set of steps as disjoint ranges ``[first, last]``.

    With more than `MOST` ranges the closest ones are joined, and the steps between them count as
    seen: that can only matter to steps that arrive out of order.

    Examples
    --------
    >>> seen = StepRanges()
    >>> for step in (1, 2, 3, 7, 6):
    ...     seen.add(step)
    >>> seen.ranges, 3 in seen, 4 in seen
    ([[1, 3], [6, 7]], True, False)
    """

    def __init__(self, ranges: Iterable[Iterable[int]] = ()) -> None:
        self.ranges: list[list[int]] = []
        for first, last in ranges:
            self._insert(first, last)

    def __contains__(self, step: int) -> bool:
        place = bisect_right(self.ranges, step, key=_first) - 1
        return place >= 0 and step <= self.ranges[place][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def last(self) -> int | None:
        """The highest step, None before the first."""
        return self.ranges[-1][1] if self.ranges else None

    def add(self, step: int) -> None:
        """Enter a step."""
        if self.ranges and self.ranges[-1][1] + 1 == step:
            self.ranges[-1][1] = step
        elif step not in self:
            self._insert(step, step)

    def merge(self, other: StepRanges) -> None:
        """Enter all steps of another set."""
        for first, last in other.ranges:
            self._insert(first, last)

    def _insert(self, first: int, last: int) -> None:
        kept = []
        for low, high in self.ranges:
            if high + 1 < first or last + 1 < low:
                kept.append([low, high])
            else:
                first, last = min(first, low), max(last, high)
        kept.insert(bisect_right(kept, first, key=_first), [first, last])
        if len(kept) > MOST:
            gaps = [after[0] - before[1] for before, after in pairwise(kept)]
            at = gaps.index(min(gaps))
            kept[at : at + 2] = [[kept[at][0], kept[at + 1][1]]]
        self.ranges = kept


def _first(one: list[int]) -> int:
    return one[0]

"""Which kinds of groups a batch is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.summary import GroupSummary

KINDS = ("all_wrong", "all_correct", "tied_between")


class Levels(NamedTuple):
    """The lowest and the highest reward of a run; NaN before anything was scored."""

    low: float
    high: float

    @classmethod
    def of(cls, summary: GroupSummary) -> Levels:
        """Return the levels over all scorable samples."""
        known = summary.scorable > 0
        if not known.any():
            return cls(np.nan, np.nan)
        return cls(float(summary.low[known].min()), float(summary.high[known].max()))

    def scale(self, tolerance: Tolerance) -> float:
        """Return the reward scale of the run: its range.

        Our reading where the whole run is nearly constant: its largest magnitude instead, since a
        range that is itself below the resolution is no yardstick.
        """
        span, magnitude = self.high - self.low, max(abs(self.low), abs(self.high))
        return span if span > tolerance.resolution * magnitude else magnitude

    def kind(self, value: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.int64]:
        """Return the index into `KINDS` of groups tied at these values."""
        low, high = np.full_like(value, self.low), np.full_like(value, self.high)
        if tolerance.equal(np.float64(self.low), np.float64(self.high)):
            wrong, right = value <= 0, tolerance.equal(np.minimum(value, 1), np.maximum(value, 1))
        else:
            wrong = tolerance.equal(low, np.maximum(value, low))
            right = tolerance.equal(np.minimum(value, high), high)
        return np.select([wrong, right], [0, 1], 2)


def kinds(groups: Groups, summary: GroupSummary, levels: Levels | None = None) -> NDArray[np.int64]:
    """Return the index into `KINDS` of each tied group, -1 for every other group.

    By `correct` where a tied group knows it (all 0, all 1, else between), otherwise by the levels
    of the run's reward.
    """
    levels = levels or Levels.of(summary)
    kind = np.full(len(groups), -1, dtype=np.int64)
    tied = summary.tied
    kind[tied] = levels.kind(summary.low[tied], summary.tolerance)
    verdict = _kind_by_verdict(groups, summary.tolerance)
    if verdict is not None:
        decided = tied & (verdict >= 0)
        kind[decided] = verdict[decided]
    return kind


@dataclass(frozen=True)
class Composition:
    """Counts of groups by kind, in a form that adds up.

    A kind depends on levels that only the whole run knows, so that tied groups are kept as a table
    of their values and mixed groups as a table of their ranges; both are as long as the number
    of distinct values.
    """

    tolerance: Tolerance
    levels: Levels
    mixed: int
    unscorable: int
    singleton: int
    decided: tuple[int, int, int]  # tied groups whose kind `correct` tells, by KINDS
    tied_at: dict[float, int] = field(default_factory=dict)
    mixed_range: dict[float, int] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Collect the composition of a batch."""
        summary = GroupSummary.of(groups, tolerance)
        tied = summary.tied
        verdict = _kind_by_verdict(groups, tolerance)
        decided = tied & (verdict >= 0) if verdict is not None else np.zeros_like(tied)
        by_kind = np.bincount(verdict[decided], minlength=3) if verdict is not None else (0, 0, 0)
        mixed = summary.mixed
        return cls(
            tolerance,
            Levels.of(summary),
            int(mixed.sum()),
            int(summary.unscorable.sum()),
            int(summary.singleton.sum()),
            tuple(int(count) for count in by_kind),  # type: ignore[arg-type]
            _table(summary.low[tied & ~decided]),
            _table((summary.high - summary.low)[mixed]),
        )

    def __add__(self, other: Composition) -> Composition:
        return Composition(
            self.tolerance,
            Levels(
                float(np.fmin(self.levels.low, other.levels.low)),
                float(np.fmax(self.levels.high, other.levels.high)),
            ),
            self.mixed + other.mixed,
            self.unscorable + other.unscorable,
            self.singleton + other.singleton,
            tuple(a + b for a, b in zip(self.decided, other.decided, strict=True)),  # type: ignore[arg-type]
            _merge(self.tied_at, other.tied_at),
            _merge(self.mixed_range, other.mixed_range),
        )

    def counts(self) -> GroupCounts:
        """Return the number of groups of each kind."""
        values, numbers = _columns(self.tied_at)
        by_level = np.bincount(
            self.levels.kind(values, self.tolerance), weights=numbers, minlength=3
        )
        ranges, range_numbers = _columns(self.mixed_range)
        near = ranges <= self.tolerance.resolution * self.levels.scale(self.tolerance)
        wrong, right, between = (int(a + b) for a, b in zip(by_level, self.decided, strict=True))
        return GroupCounts(
            mixed=self.mixed,
            all_wrong=wrong,
            all_correct=right,
            tied_between=between,
            near_tied=int(range_numbers[near].sum()),
            unscorable=self.unscorable,
            singleton=self.singleton,
        )


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Number of groups of each kind; near-tied groups are counted in `mixed` too."""

    mixed: int
    all_wrong: int
    all_correct: int
    tied_between: int
    near_tied: int
    unscorable: int
    singleton: int

    @property
    def tied(self) -> int:
        """All tied groups."""
        return self.all_wrong + self.all_correct + self.tied_between

    def as_dict(self) -> dict[str, int]:
        """Return the counts under the names of the report."""
        return asdict(self)


def composition(groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> dict[str, int]:
    """Return how many groups are mixed, all wrong, all correct, tied between, and so on.

    A tied group is `all_wrong` or `all_correct` by its `correct` column where known; else by the
    lowest and the highest level that the reward takes in these groups, so that {0, 1}, {-1, 1} and
    {0, 2} all work. With one level only, 0 or less is all wrong, exactly 1 all correct, anything
    else tied between. A mixed group is near-tied when its range is at most ``resolution`` times the
    reward's scale; it is counted in `mixed` too. `unscorable` groups have fewer than two scorable
    samples, a `singleton` has one rollout.

    Source: kinds after table 3 of arXiv 2605.21125; resolution after arXiv 2609.19164.

    Examples
    --------
    >>> composition(Groups.from_nested([[-1, -1], [1, 1], [1, -1], [None, 1], [1]]))
    {'mixed': 1, 'all_wrong': 1, 'all_correct': 1, 'tied_between': 0, 'near_tied': 0, \
'unscorable': 1, 'singleton': 1}
    """
    return Composition.of(groups, tolerance).counts().as_dict()


def _kind_by_verdict(groups: Groups, tolerance: Tolerance) -> NDArray[np.int64] | None:
    if "correct" not in groups.columns:
        return None
    verdict = GroupSummary.of(groups, tolerance, "correct")
    known = verdict.scorable > 0
    wrong = known & (verdict.high <= tolerance.atol)
    right = known & (verdict.low >= 1 - tolerance.atol)
    return np.select([wrong, right, known], [0, 1, 2], -1)


def _table(values: NDArray[np.float64]) -> dict[float, int]:
    distinct, numbers = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), numbers.tolist(), strict=True))


def _columns(table: dict[float, int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return (
        np.fromiter(table.keys(), dtype=np.float64, count=len(table)),
        np.fromiter(table.values(), dtype=np.int64, count=len(table)),
    )


def _merge(mine: dict[float, int], theirs: dict[float, int]) -> dict[float, int]:
    total = dict(mine)
    for value, number in theirs.items():
        total[value] = total.get(value, 0) + number
    return total

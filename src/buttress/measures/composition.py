"""Which kinds of groups a batch is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.levels import KINDS, Levels, kind_by_verdict
from buttress.measures.summary import GroupSummary
from buttress.measures.tables import ValueCounts

LARGEST = float(np.finfo(np.float64).max)  # of a range that overflows


@dataclass(frozen=True)
class Composition:
    """Counts of groups by kind, in a form that adds up.

    A kind depends on levels that only the whole run knows, so that tied groups are kept as a table
    of their values and mixed groups as a table of their ranges; once added up, both are as long as
    the number of distinct values.
    """

    tolerance: Tolerance
    levels: Levels
    mixed: int
    unscorable: int
    singleton: int
    decided: tuple[int, ...]  # tied groups whose kind `correct` tells, by KINDS
    tied_at: ValueCounts
    mixed_range: ValueCounts

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Collect the composition of a batch."""
        summary = GroupSummary.of(groups, tolerance)
        tied, mixed = summary.tied, summary.mixed
        verdict = kind_by_verdict(groups, tolerance)
        decided = (0,) * len(KINDS)
        open_ = tied
        if verdict is not None:
            counts = np.bincount(verdict[tied] + 1, minlength=len(KINDS) + 1)
            decided = tuple(counts[1:].tolist())
            open_ = tied & (verdict < 0)
        with np.errstate(over="ignore"):
            ranges = np.minimum(summary.high[mixed] - summary.low[mixed], LARGEST)
        return cls(
            tolerance,
            Levels.of(summary),
            int(np.count_nonzero(mixed)),
            int(np.count_nonzero(summary.unscorable)),
            int(np.count_nonzero(summary.singleton)),
            decided,
            ValueCounts(summary.low[open_]),
            ValueCounts(ranges),
        )

    def __add__(self, other: Composition) -> Composition:
        if self.tolerance != other.tolerance:
            raise UsageError(
                f"cannot add compositions under {self.tolerance} and {other.tolerance}"
            )
        return Composition(
            self.tolerance,
            self.levels.union(other.levels),
            self.mixed + other.mixed,
            self.unscorable + other.unscorable,
            self.singleton + other.singleton,
            tuple(a + b for a, b in zip(self.decided, other.decided, strict=True)),
            self.tied_at + other.tied_at,
            self.mixed_range + other.mixed_range,
        )

    def counts(self) -> GroupCounts:
        """Return the number of groups of each kind."""
        kind = self.levels.kind(self.tied_at.values, self.tolerance)
        by_level = np.bincount(kind, weights=self.tied_at.numbers, minlength=len(KINDS))
        scale = min(self.levels.scale(self.tolerance), LARGEST)
        near = self.mixed_range.values <= self.tolerance.resolution * scale
        wrong, right, between = (int(a + b) for a, b in zip(by_level, self.decided, strict=True))
        return GroupCounts(
            mixed=self.mixed,
            all_wrong=wrong,
            all_correct=right,
            tied_between=between,
            near_tied=int(self.mixed_range.numbers[near].sum()),
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

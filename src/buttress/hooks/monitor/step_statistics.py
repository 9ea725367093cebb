"""What a set of rollouts showed, in a form that adds up over batches, steps and ranks."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.groups.arrays import as_float64
from buttress.hooks.metrics import silent_groups
from buttress.measures import (
    KINDS,
    ComponentCounts,
    Composition,
    GroupCounts,
    GroupSummary,
    Levels,
    SignalCounts,
    ValueCounts,
)
from buttress.measures.segments import count_in_groups
from buttress.measures.statistics import ratio

Pair = tuple[float, float]  # part and whole, or sum and count

DISTINCT = 1024  # ranges that `short` keeps exactly
FEW = 16  # values of tied groups that are not looked at
CUT_SHARE = 0.8  # of a tied group's rollouts, for it to be put down to the length cap
_BETWEEN = KINDS.index("tied_between")


@dataclass(frozen=True, slots=True)
class StepStatistics:
    """Groups by kind, rollouts by use, and pairs of part and whole under stable names.

    Attributes
    ----------
    pairs
        ``acr/<component>`` (tied, eligible groups), ``reward`` and ``correct`` (sum, count),
        ``truncated`` (rollouts at the length cap, known ones), ``truncated_ties`` (tied groups of
        which at least 80 % were truncated, tied groups), ``silent`` (groups whose advantages are
        all 0, eligible groups).
    coarse
        Ranges of mixed groups are rounded to two digits: there were more than `DISTINCT`.
    """

    composition: Composition
    signal: SignalCounts
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    coarse: bool = False

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Collect the statistics of a batch."""
        composition = Composition.of(groups, tolerance)
        signal = SignalCounts.of(groups, tolerance)
        return cls(composition, signal, _pairs(groups, tolerance))

    def __add__(self, other: Self) -> Self:
        return type(self).total([self, other])

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """Return the sum of one or more, its tables as long as those of all parts together."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        all_of = [part.composition for part in parts]
        composition = Composition(
            all_of[0].tolerance,
            _levels(all_of),
            sum([one.mixed for one in all_of]),
            sum([one.unscorable for one in all_of]),
            sum([one.singleton for one in all_of]),
            tuple(map(sum, zip(*[one.decided for one in all_of], strict=True))),
            _joined([one.tied_at for one in all_of]),
            _joined([one.mixed_range for one in all_of]),
        )
        rows: list[tuple[int, ...]] = [_AS_ROW(part.signal) for part in parts]
        signal = SignalCounts(*[sum(column) for column in zip(*rows, strict=True)])
        return cls(composition, signal, _sum_of_pairs(parts), any(part.coarse for part in parts))

    def short(self) -> Self:
        """Return the same statistics, the tables of values made as short as they can be.

        Levels only widen, so a group that is tied between them stays so and needs no entry. Ranges
        stay exact up to `DISTINCT` of them; then they are rounded to two significant digits.
        """
        one = self.composition
        tied_at, decided = _distinct(one.tied_at), list(one.decided)
        if len(tied_at.values) > FEW:
            between = _strictly_between(tied_at.values, one.levels, one.tolerance)
            decided[_BETWEEN] += int(tied_at.numbers[between].sum())
            tied_at = ValueCounts(tied_at.values[~between], tied_at.numbers[~between])
        ranges, coarse = _short(one.mixed_range, self.coarse)
        composition = Composition(
            one.tolerance,
            one.levels,
            one.mixed,
            one.unscorable,
            one.singleton,
            tuple(decided),
            tied_at,
            ranges,
        )
        return type(self)(composition, self.signal, self.pairs, coarse)

    @property
    def tied(self) -> int:
        """Tied groups."""
        return int(self.composition.tied_at.numbers.sum()) + sum(self.composition.decided)

    @property
    def eligible(self) -> int:
        """Groups with two or more scorable samples."""
        return self.composition.mixed + self.tied

    @property
    def acr(self) -> float:
        """Tied over eligible groups."""
        return ratio(self.tied, self.eligible)

    def ratio(self, name: str) -> float:
        """Return a part of its whole, NaN where nothing is known of it."""
        return ratio(*self.pairs.get(name, (0.0, 0.0)))

    def counts(self, levels: Levels) -> GroupCounts:
        """Return the groups of each kind by the levels of the run."""
        composition = self.composition
        if composition.levels != levels:
            named = {one.name: getattr(composition, one.name) for one in fields(composition)}
            composition = Composition(**(named | {"levels": levels}))
        return composition.counts()


_AS_ROW = operator.attrgetter(*(one.name for one in fields(SignalCounts)))


def _pairs(groups: Groups, tolerance: Tolerance) -> dict[str, Pair]:
    summary = GroupSummary.of(groups, tolerance)
    pairs: dict[str, Pair] = {"reward": _sum_and_count(groups.rewards)}
    correct = groups.column("correct")
    if correct is not None:
        pairs["correct"] = _sum_and_count(correct)
    components = [name for name in groups.columns if name.startswith("reward/")]
    for name in components:
        # with one reward function, of weight 1, the component is the reward
        if np.array_equal(groups.columns[name], groups.values):
            groups.memo.setdefault((GroupSummary, name, tolerance), summary)
    if correct is not None or components:
        counts = ComponentCounts.of(groups, tolerance).counts
        pairs |= {f"acr/{name}": _pair(*counts[name]) for name in counts if name != "reward"}
    if "truncated" in groups.columns:
        pairs |= _truncation(groups, summary)
    advantages = groups.column("advantage")
    if advantages is not None:
        eligible = summary.eligible & _known_groups(np.isfinite(advantages), groups)
        silent = silent_groups(groups, advantages) & eligible
        pairs["silent"] = _pair(np.count_nonzero(silent), np.count_nonzero(eligible))
    return pairs


def _truncation(groups: Groups, summary: GroupSummary) -> dict[str, Pair]:
    cut = groups.columns["truncated"]
    if cut.dtype == bool:
        hit, n_known, tied = cut, len(cut), summary.tied
    else:
        cut = as_float64(cut, "column 'truncated'")
        known = np.isfinite(cut)
        hit, n_known = known & (cut > 0), np.count_nonzero(known)
        tied = summary.tied & _known_groups(known, groups)
    lost = 0
    if hit.any():
        per_group = count_in_groups(hit, groups)
        lost = np.count_nonzero(tied & (per_group >= CUT_SHARE * groups.sizes))
    return {
        "truncated": _pair(np.count_nonzero(hit), n_known),
        "truncated_ties": _pair(lost, np.count_nonzero(tied)),
    }


def _known_groups(known: NDArray[np.bool_], groups: Groups) -> NDArray[np.bool_]:
    """Return the groups of which something is known."""
    return count_in_groups(known, groups) > 0


def _sum_and_count(values: NDArray[np.float64]) -> Pair:
    total = float(values.sum())
    if math.isfinite(total):
        return total, float(len(values))
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return float(values.sum()), float(len(values))


def _pair(part: Any, whole: Any) -> Pair:
    return float(part), float(whole)


def _sum_of_pairs(parts: Iterable[StepStatistics]) -> dict[str, Pair]:
    total: dict[str, Pair] = {}
    for part in parts:
        for name, (above, below) in part.pairs.items():
            known = total.get(name, (0.0, 0.0))
            total[name] = known[0] + above, known[1] + below
    return total


def _levels(parts: Iterable[Composition]) -> Levels:
    levels = [part.levels for part in parts if part.levels.low == part.levels.low]
    if not levels:
        return Levels(math.nan, math.nan)
    return Levels(min(one.low for one in levels), max(one.high for one in levels))


def _joined(tables: list[ValueCounts]) -> ValueCounts:
    return ValueCounts(
        np.concatenate([table.values for table in tables]),
        np.concatenate([table.numbers for table in tables]),
    )


def _strictly_between(
    values: NDArray[np.float64], levels: Levels, tolerance: Tolerance
) -> NDArray[np.bool_]:
    if not len(values) or tolerance.equal(levels.low, levels.high):
        return np.zeros(len(values), dtype=bool)
    return levels.kind(values, tolerance) == _BETWEEN


def _distinct(table: ValueCounts) -> ValueCounts:
    return table + ValueCounts(table.values[:0])


def _short(table: ValueCounts, coarse: bool) -> tuple[ValueCounts, bool]:
    table = _distinct(table)
    if not coarse and len(table.values) <= DISTINCT:
        return table, False
    return _distinct(ValueCounts(_two_digits(table.values), table.numbers)), True


def _two_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round positive numbers to two significant digits.

    Examples
    --------
    >>> _two_digits(np.array([0.01234, 987.0, 0.0])).tolist()
    [0.012, 990.0, 0.0]
    """
    rounded = np.array([float(f"{value:.1e}") for value in values.tolist()])
    return np.minimum(rounded, np.finfo(np.float64).max)

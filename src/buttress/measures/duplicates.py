"""Groups whose completions are the same text: a sampling fault, not a hard prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.groups.build import sample_index
from buttress.groups.identity import codes_of
from buttress.measures.segments import count_in_groups
from buttress.measures.statistics import Additive, ratio


@dataclass(frozen=True, slots=True)
class DuplicateCounts(Additive):
    """Groups of several known completions, those of one text only, and repeated completions."""

    groups: int
    identical: int
    completions: int
    repeated: int  # completions beyond the first of each text in a group

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> Self:
        """Count the groups of a batch."""
        codes = _codes(groups)
        if codes is None:
            return cls(0, 0, 0, 0)
        known, distinct = _known(codes, groups), _distinct(codes, groups)
        several = known >= 2
        return cls(
            int(several.sum()),
            int((several & (distinct == 1)).sum()),
            int(known[several].sum()),
            int((known - distinct)[several].sum()),
        )

    @property
    def identical_rate(self) -> float:
        """Share of groups that hold one text only."""
        return ratio(self.identical, self.groups)

    @property
    def repeated_rate(self) -> float:
        """Share of completions that repeat another of their group."""
        return ratio(self.repeated, self.completions)


def distinct_completions(groups: Groups) -> NDArray[np.int64] | None:
    """Return the number of different completions per group, None where texts are unknown.

    ``Groups.columns["completion"]`` holds texts, or whole numbers that are hashes of texts. A
    missing text (None) is left out, since what is not known repeats nothing.

    Examples
    --------
    >>> groups = Groups.from_nested([[1, 1, 0]], completion=[["a", "a", None]])
    >>> distinct_completions(groups).tolist()
    [1]
    """
    codes = _codes(groups)
    return None if codes is None else _distinct(codes, groups)


def duplicates(groups: Groups) -> DuplicateCounts:
    """Return how often completions repeat inside their group.

    Examples
    --------
    >>> groups = Groups.from_nested([[1, 1], [0, 1]], completion=[["a", "a"], ["b", "c"]])
    >>> duplicates(groups).identical_rate
    0.5
    """
    return DuplicateCounts.of(groups)


class _Codes(NamedTuple):
    """One number per completion, equal for equal texts."""

    code: NDArray[np.int64]
    missing: NDArray[np.bool_] | None  # None where all are known


def _codes(groups: Groups) -> _Codes | None:
    texts = groups.columns.get("completion")
    if texts is None:
        return None
    if texts.dtype.kind in "iu":
        return _Codes(texts, None)
    code = codes_of(texts, "column 'completion'")[0]
    missing = code < 0
    return _Codes(code, missing if missing.any() else None)


def _known(codes: _Codes, groups: Groups) -> NDArray[np.int64]:
    return groups.sizes if codes.missing is None else count_in_groups(~codes.missing, groups)


def _distinct(codes: _Codes, groups: Groups) -> NDArray[np.int64]:
    distinct = np.zeros(len(groups), dtype=np.int64)
    # groups of one size are a matrix, and sorting its rows is the quickest way to count
    for size in np.unique(groups.sizes[groups.sizes > 0]):
        index = np.flatnonzero(groups.sizes == size)
        block = np.sort(codes.code[sample_index(groups.offsets, index)].reshape(-1, size), axis=1)
        distinct[index] = 1 + (block[:, 1:] != block[:, :-1]).sum(axis=1)
    if codes.missing is not None:
        distinct -= count_in_groups(codes.missing, groups) > 0  # code -1 of its own
    return distinct

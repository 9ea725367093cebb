"""Groups whose completions are the same text: a sampling fault, not a hard prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
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
        distinct = distinct_completions(groups)
        if distinct is None:
            return cls(0, 0, 0, 0)
        several = groups.sizes >= 2
        return cls(
            int(several.sum()),
            int((several & (distinct == 1)).sum()),
            int(groups.sizes[several].sum()),
            int((groups.sizes - distinct)[several].sum()),
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

    ``Groups.columns["completion"]`` holds either texts or hashes of texts.
    """
    texts = groups.columns.get("completion")
    if texts is None:
        return None
    if texts.dtype.kind not in "iu":
        texts = np.unique(texts.astype(str), return_inverse=True)[1]
    order = np.lexsort((texts, groups.group_of))
    group, text = groups.group_of[order], texts[order]
    new = np.ones(len(text), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (text[1:] != text[:-1])
    return np.bincount(group[new], minlength=len(groups))


def duplicates(groups: Groups) -> DuplicateCounts:
    """Return how often completions repeat inside their group.

    Examples
    --------
    >>> groups = Groups.from_nested([[1, 1], [0, 1]], completion=[["a", "a"], ["b", "c"]])
    >>> duplicates(groups).identical_rate
    0.5
    """
    return DuplicateCounts.of(groups)

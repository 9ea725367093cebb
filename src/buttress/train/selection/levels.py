"""Difficulty levels: which problems a model solves always, sometimes, never; a sample of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from buttress.errors import UsageError

# Lower edges of the levels 0 to 5; level 6 is what is left.
BANDS = (0.95, 0.80, 0.50, 0.30, 0.10, 0.01)


def check_bands(bands: Sequence[float]) -> tuple[float, ...]:
    """Return lower edges of levels; raises `UsageError` where they do not descend in (0, 1]."""
    edges = tuple(bands)
    if not edges or not all(0 < edge <= 1 for edge in edges):
        raise UsageError(f"bands are lower edges above 0 and at most 1; got {list(edges)}")
    if any(not higher > lower for higher, lower in pairwise(edges)):
        raise UsageError(f"bands must descend, e.g. 0.95,0.8,0.5,0.3,0.1,0.01; got {list(edges)}")
    return edges


def level_of(successes: int, tries: int, bands: Sequence[float] = BANDS) -> int | None:
    """Return the level of a problem: the first whose lower edge its success rate reaches.

    With the default bands a rate p has level 0 for p >= 0.95, 1 for 0.80 <= p < 0.95, 2 for
    0.50 <= p < 0.80, 3 for 0.30 <= p < 0.50, 4 for 0.10 <= p < 0.30, 5 for 0.01 <= p < 0.10, and 6
    below. None where nothing was tried.

    Parameters
    ----------
    successes, tries
        Of `tries` completions that could be judged, `successes` were right.
    bands
        Lower edges, descending.

    Notes
    -----
    The paper's bands (arXiv 2605.21125, appendix) are "95 %", "80 %", "50-80", "30-50", "10-30",
    "1-10" and "under 1 %". They name points for the levels 0 and 1 and leave open to which level
    an edge belongs. Our reading: every level holds its lower edge and reaches up to the next
    level's, so that each rate has exactly one level.

    Examples
    --------
    >>> [level_of(successes, 10) for successes in (10, 9, 5, 4, 3, 1, 0)]
    [0, 1, 2, 3, 3, 4, 6]
    >>> level_of(0, 0) is None
    True
    """
    if not tries:
        return None
    rate = successes / tries
    return next((level for level, edge in enumerate(bands) if rate >= edge), len(bands))


def unreachable(tries: int, bands: Sequence[float] = BANDS) -> list[int]:
    """Return the levels that no number of successes in so many tries has.

    >>> unreachable(16), unreachable(100)
    ([], [])
    >>> unreachable(8)
    [5]
    """
    reached = {level_of(successes, tries, bands) for successes in range(tries + 1)}
    return [level for level in range(len(bands) + 1) if level not in reached]


def sample_of(identities: Sequence[str], size: int | None, seed: int) -> list[int]:
    """Return the places of a random sample, ascending.

    Each identity gets a number from itself and the seed, and the smallest win. So the sample is the
    same on every machine and in every order of the rows, and a smaller one is part of a larger one.
    Equal identities have equal numbers, and the earlier row comes first.

    Parameters
    ----------
    identities
        Of the problems to draw from.
    size
        How many; all where there are fewer or it is None.
    seed
        Of the draw.

    Examples
    --------
    >>> names = [f"p{number}" for number in range(100)]
    >>> small, large = (sample_of(names, size, seed=1) for size in (5, 20))
    >>> set(small) <= set(large), len(large)
    (True, 20)
    """
    if size is not None and size < 1:
        raise UsageError(f"the size of a sample must be 1 or more; got {size}")
    numbers = [
        hashlib.blake2b(f"{seed} {name}".encode("utf-8", "replace"), digest_size=16).digest()
        for name in identities
    ]
    order = sorted(range(len(identities)), key=lambda place: (numbers[place], place))
    return sorted(order[:size])

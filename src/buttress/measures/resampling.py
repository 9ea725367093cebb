"""Dynamic sampling: how many generation batches an update needs, and whether it may have them."""

from __future__ import annotations

from math import ceil, inf, isfinite
from typing import NamedTuple

import numpy as np

from buttress.errors import UsageError
from buttress.measures.intervals import wilson_interval

_GRID = 2000


class Batches(NamedTuple):
    """Generation batches for one update; infinite where no group may be live at all."""

    value: float
    low: float
    high: float


def batches_needed(
    live: int, seen: int, needed: int, batch: int, *, confidence: float = 0.95
) -> Batches:
    """Return how many generation batches fill an update with live (mixed) groups.

    ``ceil(needed / (batch * q))`` with ``q = live / seen``; the interval is that of q (Wilson).

    Parameters
    ----------
    live, seen
        Live groups among those that were seen.
    needed
        Live groups that an update takes.
    batch
        Prompts of one generation batch.

    Source: dynamic sampling of DAPO, arXiv 2503.14476.

    Examples
    --------
    >>> batches_needed(3, 48, needed=32, batch=48)
    Batches(value=11, low=4, high=32)
    """
    _check(live, seen, needed, batch)
    low, high = wilson_interval(live, seen, confidence=confidence)
    rates = (live / seen, high, low)
    return Batches(*(ceil(needed / (batch * q) - 1e-9) if q > 0 else inf for q in rates))


def stall_chance(
    live: int, seen: int, needed: int, batch: int, limit: int, *, updates: int = 1
) -> float:
    """Return the chance that one of the next updates needs more batches than allowed.

    An update stalls when ``limit`` batches hold fewer than ``needed`` live groups, which are
    binomial given the live share; the share is uncertain, Beta(live + 1/2, seen - live + 1/2)
    (Jeffreys), and the same for all the updates.

    Examples
    --------
    >>> round(stall_chance(3, 48, needed=32, batch=48, limit=10), 2)
    0.5
    >>> stall_chance(40, 48, needed=32, batch=48, limit=10) < 1e-9
    True
    """
    from scipy.stats import beta, binom  # slow to import

    _check(live, seen, needed, batch)
    if limit < 1 or updates < 1:
        raise UsageError(f"limit and updates must be 1 or more; got {limit!r} and {updates!r}")
    middle = (np.arange(_GRID) + 0.5) / _GRID
    q = beta.ppf(middle, live + 0.5, seen - live + 0.5)
    fills = binom.sf(needed - 1, batch * limit, q)
    return float(1 - (fills**updates).mean())


def _check(live: int, seen: int, needed: int, batch: int) -> None:
    whole = all(isfinite(one) for one in (live, seen, needed, batch))
    if not whole or not (0 <= live <= seen and seen > 0 and needed > 0 and batch > 0):
        raise UsageError(
            "live must lie between 0 and seen, and seen, needed and batch above 0; got "
            f"{live}, {seen}, {needed}, {batch}"
        )

"""Where larger groups stop helping: the tied share by group size and the floor under it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from buttress.measures import Difficulty, expected_ties
from buttress.rules.prompt_counts import Counts

_MOST = 64  # largest group size that is looked at
_LEAST = 8  # rollouts that half of the prompts must have


class FloorCurve(NamedTuple):
    """Expected share of tied groups by group size, and what no size frees."""

    sizes: tuple[int, ...]
    tied: tuple[float, ...]
    floor: float
    floor_interval: tuple[float, float]
    never: float  # share of the prompts with rate 0
    always: float
    next_gain: float  # what one more doubling is expected to free
    prompts: int


def floor_curve(counts: Counts) -> FloorCurve | None:
    """Return the curve up to a size that half of the prompts reach, None below 8 rollouts.

    The floor is the median of what `Difficulty` leaves open.

    Examples
    --------
    >>> curve = floor_curve(Counts(np.full(200, 16), np.resize([0.0, 6.0], 200)))
    >>> [round(share, 2) for share in curve.tied], round(curve.floor, 1)
    ([0.75, 0.56, 0.5, 0.5], 0.5)
    """
    tried = counts.tries[counts.tries > 0]
    if not len(tried):
        return None
    largest = 2 ** int(np.log2(max(min(float(np.median(tried)), _MOST), 1)))
    if largest < _LEAST:
        return None
    table = np.column_stack([counts.wins, counts.tries - counts.wins])
    sizes = tuple(2**power for power in range(1, int(np.log2(largest)) + 1))
    expected = [expected_ties(table, size) for size in sizes]
    found = Difficulty.of(counts.tries, counts.wins)
    assert found is not None
    return FloorCurve(
        sizes,
        tuple(one.value for one in expected),
        float(np.median(found.floor)),
        found.interval(found.floor),
        float(np.median(found.never)),
        float(np.median(found.always)),
        float(np.mean(found.ties(largest) - found.ties(2 * largest))),
        expected[-1].prompts,
    )

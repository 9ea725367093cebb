"""How many rollouts TRL compares: from the runs of equal prompts, checked by the advantages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs.frameworks.trl.files import Dump

# Of the rows; the rest may be torn groups.
_MOST = 0.95
# Below this an advantage may be float noise of a tied group (2.1 in groups of 8 gives 0.0024).
NOISE = 0.01
# Advantages have mean zero in a group, up to float32.
_PRECISION = 1e-3
# Their deviation is one, up to the eps of the divisor.
_NEAR_ONE = 0.02
# So many blocks do not all have mean zero by chance.
_ENOUGH = 8


class GroupSize(NamedTuple):
    """The inferred size, and how it was found."""

    size: int
    found: str


def group_size(dumps: Sequence[Dump]) -> GroupSize | None:
    """Return how many consecutive rows are a group, or None where nothing tells.

    The size divides the runs of equal prompts; a run may hold several groups. The advantages tell
    how many: scaled ones have mean 0 and deviation 1 in every group and in no union of groups;
    others have mean 0 in groups and unions, but hardly ever in all parts of groups. Where
    neighbours always differ, the number of rows per prompt and step is the size of blocks that mix
    prompts: the check of the grouping then refuses them.
    """
    runs = Counter(length for dump in dumps for length in _runs(dump).tolist())
    common = _common_divisor(runs)
    if common < 2:
        per_step = Counter(n for dump in dumps for n in _per_prompt(dump).tolist())
        common = _common_divisor(per_step)
        found = "by the rows per prompt and step; but they do not stand together"
        return GroupSize(common, found) if common > 1 else None
    advantages = {
        size: np.array([block for dump in dumps for block in _full_blocks(dump, size)])
        for size in _divisors(common)
    }
    if not len(advantages[common]):
        return GroupSize(common, "by the runs of equal prompts")
    scaled = [size for size, blocks in advantages.items() if _share(_scaled(blocks)) >= _MOST]
    centred = [
        size
        for size, blocks in advantages.items()
        if _share(_centred(blocks)) == 1 and (len(blocks) >= _ENOUGH or size == common)
    ]
    if scaled or centred:
        size = max(scaled) if scaled else min(centred)
        return GroupSize(size, "by the runs of equal prompts and the advantages")
    return GroupSize(common, "by the runs of equal prompts; the advantages do not sum to zero")


def blocks(dump: Dump, size: int) -> NDArray[np.int64]:
    """Return the number of the group of each row, -1 for rows of a group that lost its head."""
    torn = len(dump) % size if dump.headless else 0
    place = np.arange(len(dump)) - torn
    return np.where(place < 0, -1, place // size)


def _runs(dump: Dump) -> NDArray[np.int64]:
    """Return the lengths of the runs of equal prompts."""
    border = np.flatnonzero(dump.prompt[1:] != dump.prompt[:-1]) + 1
    lengths = np.diff(np.concatenate(([0], border, [len(dump)])))
    return lengths[1:] if dump.headless else lengths


def _per_prompt(dump: Dump) -> NDArray[np.int64]:
    return np.unique(dump.prompt, return_counts=True)[1]


def _common_divisor(lengths: Counter[int]) -> int:
    """Return the largest number that divides the lengths of nearly all rows."""
    rows = sum(length * times for length, times in lengths.items())
    candidates = {one for length in lengths for one in _divisors(length)}
    for size in sorted(candidates, reverse=True):
        held = sum(length * times for length, times in lengths.items() if length % size == 0)
        if held >= _MOST * rows:
            return size
    return 1


def _divisors(number: int) -> Iterator[int]:
    """Yield the divisors from 2, largest first."""
    yield from (one for one in range(number, 1, -1) if number % one == 0)


def _full_blocks(dump: Dump, size: int) -> Iterator[NDArray[np.float64]]:
    """Yield the advantages of each whole group in which they are more than noise."""
    advantage = dump.numbers.get("advantage")
    if advantage is None:
        return
    number = blocks(dump, size)
    kept = advantage[number >= 0]
    whole = kept[: len(kept) // size * size].reshape(-1, size)
    known = whole[np.isfinite(whole).all(axis=1)]
    yield from known[np.abs(known).max(axis=1, initial=0.0) > NOISE]


def _share(fits: NDArray[np.bool_]) -> float:
    return float(fits.mean()) if len(fits) else 0.0


def _centred(blocks: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the blocks in which the advantages have mean 0."""
    return np.abs(blocks.mean(axis=-1)) <= _PRECISION


def _scaled(blocks: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the blocks in which they have deviation 1 too, rollouts without a reward left out."""
    if not len(blocks):
        return np.zeros(0, dtype=bool)
    known = np.maximum((blocks != 0).sum(axis=1), 2)
    deviation = np.sqrt((blocks**2).sum(axis=1) / (known - 1))
    plain = blocks.std(axis=1, ddof=1)
    near = (np.abs(plain - 1) <= _NEAR_ONE) | (np.abs(deviation - 1) <= _NEAR_ONE)
    return _centred(blocks) & near

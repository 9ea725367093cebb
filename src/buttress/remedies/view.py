"""From a batch of groups to dense blocks, and from their cells back to the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat.numpy
import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.measures.segments import reduce_groups
from buttress.measures.summary import GroupSummary
from buttress.remedies.dense import LARGEST, Dense, float_dtype, floating, take

# The same for a device without float64.
LARGEST_NARROW = 1e8
# Up to here no estimator's advantage overflows half precision.
SAFE_IN_HALF = 1e3


@dataclass(frozen=True, eq=False)
class View:
    """A batch cut into `Dense` blocks.

    Groups of one size are a reshape. Ragged groups are padded into one block while that at most
    doubles the memory, else into one block per power of two of the size: one huge group then does
    not blow up the others.
    """

    groups: Groups
    summary: GroupSummary
    blocks: list[Dense]
    largest: float  # the largest |reward|
    place: NDArray[np.int64] | None = None  # cell of each sample, None for a reshape

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance) -> View:
        """Return the dense view of a batch.

        Without a gradient it is kept with the groups, so that several estimators share it.
        """
        if getattr(Groups.checked(groups).values, "requires_grad", False):
            return cls._build(groups, tolerance)
        key, memo = (cls, tolerance), groups.memo
        if key not in memo:
            memo[key] = cls._build(groups, tolerance)
        return memo[key]

    @classmethod
    def _build(cls, groups: Groups, tolerance: Tolerance) -> View:
        groups, values, largest = _tame(groups)
        sizes = groups.sizes
        if len(sizes) and sizes[0] and (sizes == sizes[0]).all():
            summary = _summary_of_equals(groups, tolerance)
            return cls(groups, summary, [_whole(groups, summary, values)], largest)
        summary = GroupSummary.of(groups, tolerance)
        if not groups.n_samples:
            return cls(groups, summary, [], largest)
        place = np.empty(groups.n_samples, dtype=np.int64)
        blocks, start = [], 0
        for index in _buckets(sizes, groups.n_samples):
            block, samples, real = _padded(groups, summary, values, index)
            place[samples[real]] = start + np.flatnonzero(real)
            start += real.size
            blocks.append(block)
        return cls(groups, summary, blocks, largest, place)

    def flatten(self, parts: Sequence[Any]) -> Any:
        """Return cells of each block as one flat array in the order of the samples."""
        values = self.groups.values
        if not parts:
            return floating(values)
        xp = self.blocks[0].xp
        if self.place is None:
            flat = parts[0].reshape(-1)
        else:
            cells = [part.reshape(-1) for part in parts]
            flat = take(xp, cells[0] if len(cells) == 1 else xp.concat(cells), self.place)
        return self._as_input(flat)

    def _as_input(self, flat: Any) -> Any:
        values = self.groups.values
        if flat.dtype == values.dtype:  # both NumPy, or both torch
            return flat
        xp = array_namespace(values)
        if isinstance(flat, np.ndarray) and not isinstance(values, np.ndarray):
            flat = xp.asarray(flat)
        dtype = float_dtype(xp, values)
        if flat.dtype == dtype:
            return flat
        if self.largest > SAFE_IN_HALF:
            # a narrow dtype must not turn a large finite advantage into infinity
            limit = float(xp.finfo(dtype).max)
            flat = xp.clip(flat, -limit, limit)
        return xp.astype(flat, dtype)


def _tame(groups: Groups) -> tuple[Groups, Any, float]:
    """Return the groups, their rewards in the widest float of the device, and the largest |r|.

    NumPy arrays, and tensors on the CPU that carry no gradient, become float64 NumPy arrays: on
    batches of usual size NumPy takes half the time of torch.
    """
    values, rewards = groups.values, groups.rewards
    largest = float(np.fmax.reduce(np.abs(rewards), initial=0.0))
    on_host = isinstance(values, np.ndarray) or (
        getattr(values, "requires_grad", True) is False and values.device.type == "cpu"
    )
    if on_host and largest <= LARGEST:
        return groups, rewards, largest
    xp = array_namespace(values)
    wide, limit = xp.float64, LARGEST
    if not on_host and "mps" in str(device(values)):
        wide, limit = xp.float32, LARGEST_NARROW  # that device has no float64
    tamed = xp.astype(values, wide, copy=False)
    if largest > limit:
        tamed = xp.clip(tamed, -limit, limit)
        groups = groups.with_rewards(xp.astype(tamed, values.dtype, copy=False))
    return groups, groups.rewards if on_host else tamed, largest


def _library(values: Any) -> Any:
    """Return the namespace of the array API for these values."""
    return array_api_compat.numpy if isinstance(values, np.ndarray) else array_namespace(values)


def _summary_of_equals(groups: Groups, tolerance: Tolerance) -> GroupSummary:
    """Return `GroupSummary.of` for groups of one size: the short way where nothing is missing."""
    low = reduce_groups(np.minimum, groups.rewards, groups)
    if np.isnan(low.min()):  # a NaN comes through
        return GroupSummary.of(groups, tolerance)
    high = reduce_groups(np.maximum, groups.rewards, groups)
    return GroupSummary(groups.sizes, groups.sizes, low, high, tolerance)


def _whole(groups: Groups, summary: GroupSummary, values: Any) -> Dense:
    shape = (len(groups), int(groups.sizes[0]))

    def fetch(column: NDArray[Any]) -> NDArray[Any]:
        return column.reshape(shape)

    xp = _library(values)
    cells = values.reshape(shape)
    index = np.arange(len(groups))
    hidden = None
    if summary.scorable is not groups.sizes and summary.scorable.sum() < groups.n_samples:
        hidden = np.isnan(groups.rewards).reshape(shape)
    return _block(groups, summary, xp, cells, hidden, index, fetch)


def _padded(
    groups: Groups, summary: GroupSummary, values: Any, index: NDArray[np.int64]
) -> tuple[Dense, NDArray[np.int64], NDArray[np.bool_]]:
    sizes = groups.sizes[index]
    column = np.arange(int(sizes.max()))
    real = column < sizes[:, None]
    samples = np.where(real, groups.offsets[:-1][index][:, None] + column, 0)

    def fetch(flat: NDArray[Any]) -> NDArray[Any]:
        return np.where(real, flat[samples], np.nan)

    xp = _library(values)
    cells = take(xp, values, samples.reshape(-1)).reshape(samples.shape)
    hidden = ~real | np.isnan(groups.rewards)[samples]
    block = _block(groups, summary, xp, cells, hidden, index, fetch)
    return block, samples, real


def _block(
    groups: Groups,
    summary: GroupSummary,
    xp: Any,
    cells: Any,
    hidden: NDArray[np.bool_] | None,
    index: NDArray[np.int64],
    fetch: Callable[[NDArray[Any]], NDArray[Any]],
) -> Dense:
    mask = None
    if hidden is not None:
        mask = (
            ~hidden if isinstance(cells, np.ndarray) else xp.asarray(~hidden, device=device(cells))
        )
        cells = xp.where(mask, cells, xp.zeros_like(cells[:1, :1]))
    every = len(index) == len(groups)
    return Dense(
        xp=xp,
        rewards=cells,
        mask=mask,
        scorable=summary.scorable if every else summary.scorable[index],
        low=summary.low if every else summary.low[index],
        high=summary.high if every else summary.high[index],
        tied=summary.tied if every else summary.tied[index],
        index=index,
        groups=groups,
        tolerance=summary.tolerance,
        fetch=fetch,
    )


def _buckets(sizes: NDArray[np.int64], n_samples: int) -> list[NDArray[np.int64]]:
    filled = np.flatnonzero(sizes)
    if len(filled) * int(sizes.max()) <= 2 * n_samples:
        return [filled]
    power = np.frexp(sizes[filled] - 0.5)[1]
    return [filled[power == one] for one in np.unique(power)]

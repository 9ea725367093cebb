"""Groups as (group, sample) arrays of the input's own kind, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.measures.summary import GroupSummary

# Rewards beyond this are clamped, so that no square of one overflows.
LARGEST = 1e100
# Up to here no estimator's advantage overflows half precision.
SAFE_IN_HALF = 1e3


@dataclass(frozen=True, eq=False)
class Dense:
    """Groups of similar size side by side; float64 of the input's namespace and device.

    Statistics leave out the cells that `mask` hides. Gradient flows through them where the input
    carries one. Arrays of shape ``(group,)`` on the host come back to the device by `lift`.

    Attributes
    ----------
    rewards
        Shape ``(group, sample)``; 0 where a cell is unscorable or padding.
    mask
        Same shape, False in those cells; None where there are none.
    scorable, low, high
        Per group on the host: scorable samples, lowest and highest reward (NaN of none).
    tied
        Per group on the host: two or more scorable samples, all equal within the tolerance.
    index
        Which groups of the batch these are.
    fetch
        Gathers a flat per-sample column of the batch into cells.
    """

    xp: Any
    rewards: Any
    mask: Any
    scorable: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    tied: NDArray[np.bool_]
    index: NDArray[np.int64]
    groups: Groups
    fetch: Callable[[NDArray[Any]], NDArray[Any]]

    def __len__(self) -> int:
        return len(self.scorable)

    def lift(self, values: Any) -> Any:
        """Return one number (or flag) per group as an array of shape ``(group, 1)``."""
        return self._array(np.asarray(values)[:, None])

    def column(self, name: str) -> Any:
        """Return a column in cells, NaN where unknown; None where the batch has no such column."""
        values = self.groups.column(name)
        return None if values is None else self._array(self.fetch(values))

    @cached_property
    def count(self) -> Any:
        """Scorable samples (at least 1): shape ``(group, 1)``, or a number if all are equal."""
        if self.mask is None:
            return max(self.rewards.shape[1], 1)
        return self.lift(np.maximum(self.scorable, 1).astype(np.float64))

    @cached_property
    def mean(self) -> Any:
        """Mean reward of each group, shape ``(group, 1)``; 0 of no samples."""
        return self.total(self.rewards) / self.count

    @cached_property
    def centred(self) -> Any:
        """``r - mean``; 0 in hidden cells."""
        return self.hide(self.rewards - self.mean)

    @cached_property
    def squares(self) -> Any:
        """Sum of squared deviations of each group, shape ``(group, 1)``."""
        return self.total(self.centred * self.centred)

    def std(self, ddof: int) -> Any:
        """Standard deviation of each group, shape ``(group, 1)``; 0 below two samples."""
        free = self.count - ddof
        free = max(free, 1) if self.mask is None else self.xp.clip(free, 1.0, None)
        return self.root(self.squares / free)

    def total(self, cells: Any) -> Any:
        """Return sums over the samples, shape ``(group, 1)``; hidden cells must hold 0."""
        return self.xp.sum(cells, axis=1, keepdims=True)

    def hide(self, cells: Any) -> Any:
        """Return the cells with 0 in the hidden ones."""
        return cells if self.mask is None else self.xp.where(self.mask, cells, self.zero)

    def choose(self, groups: NDArray[np.bool_], yes: Any, no: Any) -> Any:
        """Return `yes` in the chosen groups and `no` in the others."""
        if not groups.any():
            return no
        return self.xp.where(self.lift(groups), yes, no)

    def root(self, values: Any) -> Any:
        """Return the square root, with gradient 0 instead of infinity at 0."""
        if _carries_gradient(values):
            positive = values > 0
            safe = self.xp.where(positive, values, self.one)
            return self.xp.where(positive, self.xp.sqrt(safe), self.zero)
        return self.xp.sqrt(values)

    def ratio(self, part: Any, whole: Any) -> Any:
        """Return ``part / whole``, 0 where the whole is 0."""
        positive = whole > 0
        return self.xp.where(positive, part / self.xp.where(positive, whole, self.one), self.zero)

    @cached_property
    def zero(self) -> Any:
        """A scalar array 0."""
        return self.xp.zeros_like(self.rewards[:1, :1])

    @cached_property
    def one(self) -> Any:
        """A scalar array 1."""
        return self.xp.ones_like(self.rewards[:1, :1])

    def _array(self, values: NDArray[Any]) -> Any:
        if isinstance(self.rewards, np.ndarray):
            return values
        dtype = self.xp.bool if values.dtype == bool else self.rewards.dtype
        return self.xp.asarray(values, dtype=dtype, device=device(self.rewards))


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
    place: NDArray[np.int64] | None = field(default=None)  # cell of each sample, None for a reshape

    @classmethod
    def of(cls, groups: Groups, tolerance: Tolerance) -> View:
        """Return the dense view of a batch."""
        with np.errstate(over="ignore"):  # the range of huge rewards
            summary = _summary(groups, tolerance)
            values, largest = _tame(groups, summary)
        if not groups.n_samples:
            return cls(groups, summary, [], largest)
        width = int(groups.sizes.max())
        if len(groups) * width == groups.n_samples:
            return cls(groups, summary, [_whole(groups, summary, values, width)], largest)
        place = np.empty(groups.n_samples, dtype=np.int64)
        blocks, start = [], 0
        for index in _buckets(groups.sizes, groups.n_samples):
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
        cells = [xp.reshape(part, (-1,)) for part in parts]
        if self.place is None:
            flat = cells[0]
        else:
            every = cells[0] if len(cells) == 1 else xp.concat(cells)
            flat = take(xp, every, self.place)
        return self._as_input(xp, flat)

    def _as_input(self, xp: Any, flat: Any) -> Any:
        dtype = float_dtype(xp, self.groups.values)
        if flat.dtype == dtype:
            return flat
        if self.largest > SAFE_IN_HALF:
            # a narrow dtype must not turn a large finite advantage into infinity
            limit = float(xp.finfo(dtype).max)
            flat = xp.clip(flat, -limit, limit)
        return xp.astype(flat, dtype)


def floating(values: Any) -> Any:
    """Return values in a float dtype of their own namespace."""
    xp = array_namespace(values)
    return xp.astype(values, float_dtype(xp, values), copy=False)


def float_dtype(xp: Any, values: Any) -> Any:
    """Return the dtype of advantages: the rewards' own, or the default float of integers."""
    if xp.isdtype(values.dtype, "real floating"):
        return values.dtype
    return xp.asarray(0.0).dtype


def take(xp: Any, values: Any, index: NDArray[np.int64]) -> Any:
    """Return the elements of a flat array that a host index names."""
    if isinstance(values, np.ndarray):
        return values[index]
    return xp.take(values, xp.asarray(index, device=device(values)), axis=0)


def _summary(groups: Groups, tolerance: Tolerance) -> GroupSummary:
    rewards, sizes = groups.rewards, groups.sizes
    if not len(sizes) or not sizes[0] or (sizes != sizes[0]).any() or np.isnan(rewards).any():
        return GroupSummary.of(groups, tolerance)
    # every reward is there and no group is empty: nothing to look out for
    starts = groups.offsets[:-1]
    low, high = np.minimum.reduceat(rewards, starts), np.maximum.reduceat(rewards, starts)
    return GroupSummary(sizes, sizes, low, high, tolerance)


def _tame(groups: Groups, summary: GroupSummary) -> tuple[Any, float]:
    """Return the rewards in the widest float that the device has, and the largest ``|r|``."""
    values = groups.values
    xp = array_namespace(values)
    largest = float(np.fmax.reduce(np.maximum(-summary.low, summary.high), initial=0.0))
    wide = xp.float64
    if not isinstance(values, np.ndarray) and "mps" in str(device(values)):
        wide = xp.float32  # that device has no float64
    values = xp.astype(values, wide, copy=False)
    return (xp.clip(values, -LARGEST, LARGEST) if largest > LARGEST else values), largest


def _whole(groups: Groups, summary: GroupSummary, values: Any, width: int) -> Dense:
    shape = (len(groups), width)

    def fetch(column: NDArray[Any]) -> NDArray[Any]:
        return column.reshape(shape)

    xp = array_namespace(values)
    cells = xp.reshape(values, shape)
    index = np.arange(len(groups))
    hidden = None
    if summary.scorable.sum() < groups.n_samples:
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

    xp = array_namespace(values)
    cells = xp.reshape(take(xp, values, samples.reshape(-1)), samples.shape)
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
        fetch=fetch,
    )


def _buckets(sizes: NDArray[np.int64], n_samples: int) -> list[NDArray[np.int64]]:
    filled = np.flatnonzero(sizes)
    if len(filled) * int(sizes.max()) <= 2 * n_samples:
        return [filled]
    power = np.frexp(sizes[filled] - 0.5)[1]
    return [filled[power == one] for one in np.unique(power)]


def _carries_gradient(values: Any) -> bool:
    return is_torch_array(values) and values.requires_grad

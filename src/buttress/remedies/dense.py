"""Groups as (group, sample) arrays of the input's own kind, with their statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import Groups, Tolerance
from buttress.groups.arrays import to_numpy

# Rewards beyond this are clamped, so that no fourth power of one overflows.
LARGEST = 1e60
# Nothing is ever divided by less.
TINY = 1e-150

_ZERO, _ONE = np.zeros((1, 1)), np.ones((1, 1))
_ZERO.flags.writeable = _ONE.flags.writeable = False


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
    tolerance: Tolerance
    fetch: Callable[[NDArray[Any]], NDArray[Any]]

    def __len__(self) -> int:
        return len(self.scorable)

    @property
    def every(self) -> bool:
        """Whether these are all groups of the batch, in its order."""
        return len(self) == len(self.groups)

    def lift(self, values: Any) -> Any:
        """Return one number, index or flag per group as an array of shape ``(group, 1)``."""
        return self._array(np.asarray(values)[:, None])

    def column(self, name: str) -> Any:
        """Return a column in cells, NaN where unknown; None where the batch has no such column."""
        values = self.groups.column(name)
        return None if values is None else self._array(self.fetch(values))

    def of_column(self, name: str) -> Dense:
        """Return the same groups with a column in the place of the reward.

        Cells where the column is unknown are hidden too; counts, range and ties are the column's.
        """
        flat = self.groups.column(name)
        if flat is None:
            raise UsageError(f"these groups have no column {name!r}")
        values = np.clip(self.fetch(flat), -LARGEST, LARGEST)
        hidden = np.isnan(values) if self.mask is None else np.isnan(values) | ~_host(self.mask)
        real = np.where(hidden, 0.0, values)
        low = np.where(hidden, np.inf, values).min(axis=1, initial=np.inf)
        high = np.where(hidden, -np.inf, values).max(axis=1, initial=-np.inf)
        scorable = (~hidden).sum(axis=1)
        tied = (scorable >= 2) & self.tolerance.equal(
            np.where(scorable, low, np.nan), np.where(scorable, high, np.nan)
        )
        return replace(
            self,
            rewards=self._array(real),
            mask=self._array(~hidden) if hidden.any() else None,
            scorable=scorable,
            low=low,
            high=high,
            tied=tied,
        )

    def with_cells(self, cells: Any) -> Dense:
        """Return the same groups with other values in the cells."""
        return replace(self, rewards=cells)

    @cached_property
    def silent(self) -> NDArray[np.bool_]:
        """Per group on the host: tied, or fewer than two scorable samples."""
        return self.tied | (self.scorable < 2)

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
        return self.root(self.squares / self.free(ddof))

    def free(self, ddof: int) -> Any:
        """Degrees of freedom, at least 1: shape ``(group, 1)``, or a number if all are equal."""
        if self.mask is None:
            return max(self.rewards.shape[1] - ddof, 1)
        return self.lift(np.maximum(self.scorable - float(ddof), 1.0))

    def over(self, part: Any, deviation: Any, eps: float) -> Any:
        """Return ``part / (deviation + eps)``, 0 where that would be a division by 0."""
        divisor = deviation + eps
        return part / divisor if eps > TINY else self.ratio(part, divisor)

    def total(self, cells: Any) -> Any:
        """Return sums over the samples, shape ``(group, 1)``; hidden cells must hold 0."""
        if isinstance(cells, np.ndarray):  # by the short way
            return np.add.reduce(cells, axis=1, keepdims=True)
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
        if isinstance(values, np.ndarray):
            return np.sqrt(values)
        if _carries_gradient(values):
            positive = values > 0
            safe = self.xp.where(positive, values, self.one)
            return self.xp.where(positive, self.xp.sqrt(safe), self.zero)
        return self.xp.sqrt(values)

    def clip(self, values: Any, low: float, high: float) -> Any:
        """Return values held between two numbers."""
        if isinstance(values, np.ndarray):
            return values.clip(low, high)
        return self.xp.clip(values, low, high)

    def ratio(self, part: Any, whole: Any) -> Any:
        """Return ``part / whole``, 0 where the whole is 0."""
        positive = whole > 0
        return self.xp.where(positive, part / self.xp.where(positive, whole, self.one), self.zero)

    @cached_property
    def zero(self) -> Any:
        """A scalar array 0."""
        if isinstance(self.rewards, np.ndarray):
            return _ZERO
        return self.xp.zeros_like(self.rewards[:1, :1])

    @cached_property
    def one(self) -> Any:
        """A scalar array 1."""
        if isinstance(self.rewards, np.ndarray):
            return _ONE
        return self.xp.ones_like(self.rewards[:1, :1])

    def _array(self, values: NDArray[Any]) -> Any:
        if isinstance(self.rewards, np.ndarray):
            return values
        if not values.flags.writeable:  # torch warns of them
            values = values.copy()
        kinds = {"b": self.xp.bool, "i": self.xp.int64}
        dtype = kinds.get(values.dtype.kind, self.rewards.dtype)
        return self.xp.asarray(values, dtype=dtype, device=device(self.rewards))


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


def _host(mask: Any) -> NDArray[np.bool_]:
    return np.asarray(to_numpy(mask), dtype=bool)


def _carries_gradient(values: Any) -> bool:
    return is_torch_array(values) and values.requires_grad

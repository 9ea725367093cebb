"""Virtual rewards: values that enter a group's mean and deviation but get no gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.remedies.dense import Dense


class Virtual(NamedTuple):
    """Virtual rewards of each group, as count, mean and sum of squared deviations.

    Arrays of shape ``(group,)``; a group without any has count 0.
    """

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], count: NDArray[np.int64]) -> Virtual:
        """Summarise values of shape ``(group, k)``; of each row the first `count` are real."""
        real = np.arange(values.shape[1]) < count[:, None]
        safe = np.maximum(count, 1)
        mean = np.where(real, values, 0.0).sum(axis=1) / safe
        apart = np.where(real, values - mean[:, None], 0.0)
        return cls(count.astype(np.float64), mean, (apart * apart).sum(axis=1))


def ladder(step: NDArray[np.float64], k: NDArray[np.int64]) -> Virtual:
    """Return the moments of ``step · (1, 2, ..., k)``: mean ``step (k+1)/2``, and their spread."""
    count = k.astype(np.float64)
    return Virtual(count, step * (count + 1) / 2, step * step * count * (count * count - 1) / 12)


def normalised_with(block: Dense, virtual: Virtual, eps: float, ddof: int) -> Any:
    """Return ``(r - mean') / (std' + eps)`` of the real samples only.

    ``mean'`` and ``std'`` are over the G real and K virtual rewards, by the between-and-within
    decomposition ``M2' = M2_real + M2_virtual + G K / (G + K) (mean_real - mean_virtual)²``.
    With K = 0 this is the plain group normalisation, bit for bit.
    """
    n, k = block.count, block.lift(virtual.count)
    gap = block.lift(virtual.mean) - block.mean
    share = k / (n + k)
    squares = block.squares + block.lift(virtual.squares) + gap * gap * share * n
    free = block.lift(np.maximum(block.scorable + virtual.count - ddof, 1.0))
    centred = block.hide(block.centred - gap * share)
    return block.over(centred, block.root(squares / free), eps)


def stratified(top: NDArray[np.float64], anchor: float, k: NDArray[np.int64]) -> NDArray[Any]:
    """Return the virtual rewards of equation 9 in rows ``(group, max k)``.

    ``top (1 - j / (K + 1))`` where the group's reward `top` is above 0, else
    ``anchor (K - j + 1) / K``; j = 1..K.

    They are equal steps from 0, so `ladder` has their moments: ``top / (K + 1)`` and
    ``anchor / K``.

    Examples
    --------
    >>> stratified(np.array([1.0, 0.0]), 0.1, np.array([3, 3])).round(4).tolist()
    [[0.75, 0.5, 0.25], [0.1, 0.0667, 0.0333]]
    """
    j = np.arange(1, int(k.max(initial=0)) + 1)
    size = np.maximum(k, 1)[:, None]
    return np.where(
        (top > 0)[:, None], top[:, None] * (1 - j / (size + 1)), anchor * (size - j + 1) / size
    )


def fixed(top: NDArray[np.float64], anchor: float, k: NDArray[np.int64]) -> NDArray[Any]:
    """Return half of the group's reward (of the anchor where it is 0), K times."""
    return np.repeat(0.5 * _reach(top, anchor)[:, None], int(k.max(initial=0)), axis=1)


def exponential(top: NDArray[np.float64], anchor: float, k: NDArray[np.int64]) -> NDArray[Any]:
    """Return ``top e^(-j/2)``, j = 1..K (with the anchor where the reward is 0)."""
    j = np.arange(1, int(k.max(initial=0)) + 1)
    return _reach(top, anchor)[:, None] * np.exp(-0.5 * j)


def uniform(
    top: NDArray[np.float64], anchor: float, k: NDArray[np.int64], random: np.random.Generator
) -> NDArray[Any]:
    """Return K draws from ``U[0, top]`` (``U[0, anchor]`` where the reward is 0)."""
    return _reach(top, anchor)[:, None] * random.random((len(top), int(k.max(initial=0))))


def _reach(top: NDArray[np.float64], anchor: float) -> NDArray[np.float64]:
    return np.where(top > 0, top, anchor)

"""What is remembered of each prompt between its visits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.arrays import to_numpy
from buttress.remedies.view import View


class Rows(NamedTuple):
    """Moments of many sets at once; arrays of one shape. An empty set has count 0.

    `low` and `high` are the range of all that was seen (infinite of nothing).
    """

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    m2: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __add__(self, other: Any) -> Rows:
        count = self.count + other.count
        share = other.count / np.where(count > 0, count, 1.0)
        gap = other.mean - self.mean
        return Rows(
            count,
            self.mean + gap * share,
            self.m2 + other.m2 + gap * gap * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def pick(self, index: Any) -> Rows:
        """Return some of the sets."""
        return Rows(*(part[index] for part in self))

    def faded(self, factor: Any) -> Rows:
        """Return the same means and deviations, counted `factor` times as much."""
        return self._replace(count=self.count * factor, m2=self.m2 * factor)


def empty(shape: Any) -> Rows:
    """Return empty sets."""
    zero = np.zeros(shape)
    return Rows(zero, zero, zero, zero + np.inf, zero - np.inf)


def of_groups(view: View) -> Rows:
    """Return the moments of the rewards of each group of the batch, shape ``(group,)``."""
    n = len(view.groups)
    mean, m2 = np.zeros(n), np.zeros(n)
    for block in view.blocks:
        mean[block.index] = to_numpy(block.mean)[:, 0]
        m2[block.index] = to_numpy(block.squares)[:, 0]
    summary = view.summary
    seen = summary.scorable > 0
    return Rows(
        summary.scorable.astype(np.float64),
        mean,
        m2,
        np.where(seen, summary.low, np.inf),
        np.where(seen, summary.high, -np.inf),
    )


class PromptTable:
    """Moments per prompt; prompts are found by their identity, groups without one are forgotten.

    Parameters
    ----------
    fades
        At each visit what is known so far counts this many times as much; one memory is kept for
        each of these factors.
    """

    def __init__(self, fades: Sequence[float] = (1.0,)) -> None:
        self._fades = np.array(fades, dtype=np.float64)
        self._row: dict[Any, int] = {}
        self._rows = empty((0, len(fades)))
        self._last: tuple[Groups, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._row)

    def find(self, groups: Groups, memory: int = 0) -> Rows:
        """Return what is known of each group's prompt, shape ``(group,)``; empty where nothing."""
        return self._known(groups, memory, len(groups))

    def find_all(self, groups: Groups) -> Rows:
        """Return what each memory knows, shape ``(group, memory)``."""
        return self._known(groups, slice(None), (len(groups), len(self._fades)))

    def _known(self, groups: Groups, memory: int | slice, shape: Any) -> Rows:
        rows = self._index(groups)
        if not len(self._row):
            return empty(shape)
        found = self._rows.pick((np.maximum(rows, 0), memory))
        if (rows >= 0).all():
            return found
        known = (rows >= 0).reshape(-1, *[1] * (found.count.ndim - 1))
        return Rows(*(np.where(known, a, b) for a, b in zip(found, empty(shape), strict=True)))

    def learn(self, groups: Groups, seen: Rows) -> None:
        """Fade what is known of the visited prompts and add what was seen of each group.

        Groups of one prompt in one step count as one visit. Groups where nothing was seen, or
        whose prompt is unknown, do not count.
        """
        real = (seen.count > 0) & (groups.prompt >= 0)
        if not real.any():
            return
        rows = self._index(groups)
        if (rows[real] < 0).any():
            rows = self._enter(groups, rows, real)
        visited, place = _distinct(rows[real])
        total = _sum_by(seen.pick(real), place, len(visited))
        old = self._rows.pick(visited).faded(self._fades)
        new = old + total.pick((slice(None), None))
        for part, fresh in zip(self._rows, new, strict=True):
            part[visited] = fresh

    def merge(self, other: PromptTable) -> None:
        """Add what another table knows."""
        if not len(other):
            return
        rows = self._grow(list(other._row))
        for part, new in zip(self._rows, self._rows.pick(rows) + other._rows, strict=True):
            part[rows] = new

    def state(self) -> dict[str, Any]:
        """Return the table as lists."""
        return {
            "prompts": [_plain(one) for one in self._row],
            "moments": np.stack(self._rows, axis=-1).tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        labels = [tuple(one) if isinstance(one, list) else one for one in state["prompts"]]
        self._row = {label: row for row, label in enumerate(labels)}
        table = np.array(state["moments"], dtype=np.float64).reshape(-1, len(self._fades), 5)
        self._rows = Rows(*(table[..., part].copy() for part in range(5)))
        self._last = None

    def _index(self, groups: Groups) -> NDArray[np.int64]:
        """Return the row of each group's prompt, -1 where there is none."""
        if self._last is not None and self._last[0] is groups:
            return self._last[1]
        if not groups.has_prompts:
            return np.full(len(groups), -1, dtype=np.int64)
        codes, place = _distinct(groups.prompt)
        labels = groups.prompt_labels[codes].tolist()
        found = np.array(list(map(self._row.get, labels, repeat(-1))), dtype=np.int64)
        found[codes < 0] = -1
        self._last = (groups, found[place])
        return self._last[1]

    def _enter(
        self, groups: Groups, rows: NDArray[np.int64], real: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the rows with new ones for the prompts that have none."""
        fresh = real & (rows < 0)
        codes, place = _distinct(groups.prompt[fresh])
        rows = rows.copy()
        rows[fresh] = self._grow(groups.prompt_labels[codes].tolist())[place]
        return rows

    def _grow(self, labels: list[Any]) -> NDArray[np.int64]:
        row = self._row
        rows = np.array([row.setdefault(label, len(row)) for label in labels], dtype=np.int64)
        fresh = len(row) - len(self._rows.count)
        if fresh:
            parts = zip(self._rows, empty((fresh, len(self._fades))), strict=True)
            self._rows = Rows(*(np.concatenate(pair) for pair in parts))
        self._last = None
        return rows


def _sum_by(seen: Rows, place: NDArray[np.int64], n: int) -> Rows:
    """Return the sum over the sets of each place."""
    if len(place) == n:
        order = np.argsort(place)
        return seen.pick(order)
    count = np.bincount(place, weights=seen.count, minlength=n).astype(np.float64)
    mean = np.bincount(place, weights=seen.count * seen.mean, minlength=n) / count
    apart = seen.mean - mean[place]
    m2 = np.bincount(place, weights=seen.m2 + seen.count * apart * apart, minlength=n)
    m2 = m2.astype(np.float64)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, place, seen.low)
    np.maximum.at(high, place, seen.high)
    return Rows(count, mean, m2, low, high)


def _distinct(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct codes, and which of them each one is."""
    if (codes[1:] > codes[:-1]).all():
        return codes, np.arange(len(codes))
    return np.unique(codes, return_inverse=True)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label

"""Counts under values and under keys, in forms that add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.arrays import object_array


class ValueCounts:
    """How often each value occurs; `a + b` counts the values of both.

    Attributes
    ----------
    values, numbers
        Shape ``(entry,)``. A value may stand in several entries until two tables are added.
    """

    def __init__(
        self, values: NDArray[np.float64], numbers: NDArray[np.int64] | None = None
    ) -> None:
        self.values = values
        self.numbers = np.ones(len(values), dtype=np.int64) if numbers is None else numbers

    def __add__(self, other: ValueCounts) -> ValueCounts:
        values = np.concatenate([self.values, other.values])
        distinct, place = np.unique(values, return_inverse=True)
        numbers = np.concatenate([self.numbers, other.numbers])
        total = np.bincount(place, weights=numbers, minlength=len(distinct))
        return ValueCounts(distinct, total.astype(np.int64))


class KeyedCounts(Mapping[str, NDArray[Any]]):
    """One row of counts per key; `a + b` adds the rows of equal keys.

    Attributes
    ----------
    names
        The keys in order, all different.
    rows
        Shape ``(key, count)``.
    """

    def __init__(self, names: list[str], rows: NDArray[Any]) -> None:
        self.names = names
        self.rows = rows

    def __add__(self, other: KeyedCounts) -> KeyedCounts:
        fresh = [name for name in other.names if name not in self._place]
        names = self.names + fresh
        total = np.zeros((len(names), self.rows.shape[1]), dtype=self.rows.dtype)
        total[: len(self.names)] = self.rows
        place = self._place
        if fresh:
            place = place | dict(zip(fresh, range(len(self.names), len(names)), strict=True))
        total[[place[name] for name in other.names]] += other.rows
        merged = KeyedCounts(names, total)
        merged.__dict__["_place"] = place
        return merged

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.rows[self._place[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _place(self) -> dict[str, int]:
        return dict(zip(self.names, range(len(self.names)), strict=True))


def counts_by_prompt(groups: Groups, columns: list[NDArray[Any]], dtype: type) -> KeyedCounts:
    """Return the sums of per-group columns over the groups of each prompt that has groups."""
    if "prompts" not in groups.memo:
        groups.memo["prompts"] = _prompts(groups)
    names, place = groups.memo["prompts"]
    named = place >= 0
    rows = np.empty((len(names), len(columns)), dtype=dtype)
    for at, column in enumerate(columns):
        rows[:, at] = np.bincount(place[named], weights=column[named], minlength=len(names))
    return KeyedCounts(names, rows)


def number_prompts(groups: Groups, names: list[str], place: NDArray[np.int64]) -> None:
    """Tell `counts_by_prompt` what the caller knows: the place of each group among these names.

    Parameters
    ----------
    names
        One per row of the counts.
    place
        Shape ``(group,)``; -1 for groups that are not to be counted under a prompt.
    """
    groups.memo["prompts"] = names, place


def _prompts(groups: Groups) -> tuple[list[str], NDArray[np.int64]]:
    """Return the identities of the prompts as text, and the place of each group among them."""
    visits = np.bincount(groups.prompt + 1, minlength=len(groups.prompt_labels) + 1)[1:]
    labels = object_array(groups.prompt_labels)[visits > 0].tolist()
    names = labels if set(map(type, labels)) == {str} else list(map(str, labels))
    place = np.full(len(visits) + 1, -1, dtype=np.int64)  # the last for unknown prompts
    place[np.flatnonzero(visits)] = np.arange(len(names))
    known = dict.fromkeys(names)
    if len(known) < len(names):  # 1 and "1", or a label given twice
        at = dict(zip(known, range(len(known)), strict=True))
        place[np.flatnonzero(visits)] = list(map(at.__getitem__, names))
        names = list(known)
    return names, place[groups.prompt]

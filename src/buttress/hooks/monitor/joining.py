"""Several batches as one, with no more columns than a monitor counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Tolerance
from buttress.groups.arrays import as_float64
from buttress.groups.build import offsets_of
from buttress.measures import GroupSummary

COUNTED = frozenset({"correct", "length", "truncated", "advantage"})


def light(groups: Groups) -> Groups:
    """Return a copy of the groups without texts and whatever else is not counted.

    It is a copy because it may wait while the loop writes the next rewards into the same array.
    Raises `UsageError` where a column that is counted holds no numbers.
    """
    return Groups(
        values=groups.rewards.copy(),
        offsets=groups.offsets,
        order=groups.order,
        step=groups.step,
        group_id=groups.group_id,
        prompt=groups.prompt,
        prompt_labels=groups.prompt_labels,
        columns={
            name: _numbers(name, column)
            for name, column in groups.columns.items()
            if name in COUNTED or name.startswith("reward/")
        },
    )


def joined(parts: Sequence[Groups], tolerance: Tolerance) -> Groups:
    """Return light groups, one batch after the other; NaN where a batch lacks a column."""
    if len(parts) == 1:
        return parts[0]
    groups = _joined(parts)
    summaries = [GroupSummary.of(part, tolerance) for part in parts]
    groups.memo[GroupSummary, "reward", tolerance] = GroupSummary(
        groups.sizes,
        np.concatenate([one.scorable for one in summaries]),
        np.concatenate([one.low for one in summaries]),
        np.concatenate([one.high for one in summaries]),
        tolerance,
    )
    return groups


def _joined(parts: Sequence[Groups]) -> Groups:
    sizes = np.concatenate([part.sizes for part in parts])
    prompt, labels = _prompts(parts)
    names = dict.fromkeys(name for part in parts for name in part.columns)
    return Groups(
        values=np.concatenate([part.values for part in parts]),
        offsets=offsets_of(sizes),
        order=np.arange(int(sizes.sum())),
        step=np.zeros(len(sizes), dtype=np.int64),
        group_id=np.arange(len(sizes)),
        prompt=prompt,
        prompt_labels=labels,
        columns={name: _column(parts, name) for name in names},
    )


def _numbers(name: str, column: NDArray[Any]) -> NDArray[Any]:
    return column.copy() if column.dtype.kind in "biuf" else as_float64(column, f"column {name!r}")


def _column(parts: Sequence[Groups], name: str) -> NDArray[Any]:
    found = [part.columns.get(name) for part in parts]
    return np.concatenate(
        [
            np.full(part.n_samples, np.nan) if column is None else column
            for part, column in zip(parts, found, strict=True)
        ]
    )


def _prompts(parts: Sequence[Groups]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return codes into the labels of all parts, one after the other; -1 for an unknown prompt."""
    codes = np.concatenate([part.prompt for part in parts])
    labels = [np.asarray(part.prompt_labels, dtype=object) for part in parts]
    before = np.cumsum([0, *map(len, labels)])[:-1]
    moved = codes + np.repeat(before, [len(part) for part in parts])
    return np.where(codes < 0, -1, moved), np.concatenate(labels)

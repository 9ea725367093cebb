"""`StepStatistics` as plain Python objects that JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import numpy as np

from buttress.groups import Tolerance
from buttress.hooks.monitor.step_statistics import StepStatistics
from buttress.measures import Composition, Levels, SignalCounts, ValueCounts


def to_state(found: StepStatistics) -> dict[str, Any]:
    """Return what `from_state` makes the same statistics of."""
    found = found.short()
    one = found.composition
    return {
        "levels": levels_state(one.levels),
        "groups": [one.mixed, one.unscorable, one.singleton],
        "decided": list(one.decided),
        "tied_at": _table(one.tied_at),
        "mixed_range": _table(one.mixed_range),
        "signal": list(astuple(found.signal)),
        "pairs": {name: list(pair) for name, pair in found.pairs.items()},
        "coarse": found.coarse,
    }


def from_state(state: Mapping[str, Any], tolerance: Tolerance) -> StepStatistics:
    """Return the statistics that a state was taken of."""
    mixed, unscorable, singleton = map(int, state["groups"])
    composition = Composition(
        tolerance,
        levels_from(state["levels"]),
        mixed,
        unscorable,
        singleton,
        tuple(map(int, state["decided"])),
        _counts(state["tied_at"]),
        _counts(state["mixed_range"]),
    )
    pairs = {str(name): (float(a), float(b)) for name, (a, b) in state["pairs"].items()}
    signal = SignalCounts(*map(int, state["signal"]))
    return StepStatistics(composition, signal, pairs, bool(state["coarse"]))


def levels_state(levels: Levels) -> list[float | None]:
    """Return levels with None for unknown."""
    return [None if level != level else float(level) for level in levels]


def levels_from(state: Any) -> Levels:
    """Return levels with NaN for unknown."""
    return Levels(*(np.nan if level is None else float(level) for level in state))


def _table(table: ValueCounts) -> list[list[float]]:
    return [table.values.tolist(), table.numbers.tolist()]


def _counts(state: Any) -> ValueCounts:
    values, numbers = state
    return ValueCounts(np.array(values, dtype=np.float64), np.array(numbers, dtype=np.int64))

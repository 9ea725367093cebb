"""Timing of alternatives in turn, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    what: str
    seconds: float
    yardstick: str
    yardstick_seconds: float
    target: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float:
        """How many times the yardstick."""
        return self.seconds / self.yardstick_seconds


def medians(
    calls: Mapping[str, Callable[[], object]],
    *,
    repetitions: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each call; the calls take turns.

    For plain computing on one thread pass ``clock=time.process_time``, which leaves out the time
    that other programs took.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # warm caches and lazy imports
    for _ in range(repetitions):
        for name, call in calls.items():
            start = clock()
            call()
            seconds[name].append(clock() - start)
    return {name: median(times) for name, times in seconds.items()}

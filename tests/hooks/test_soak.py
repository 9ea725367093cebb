"""A day of steps in short: the monitor's memory stays flat. ``BUTTRESS_SOAK=86400`` is the day.

The short form counts the bytes that Python allocates; in the long one that would take an hour, and
the memory of the process shows what leaks.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np

import buttress as bt
from buttress.hooks.sinks import JsonLines
from tests.hooks.monitored_runs import random_batch

STEPS = int(os.environ.get("BUTTRESS_SOAK", "2000"))
LONG = STEPS > 10_000
GROWTH = 8 << 20 if LONG else 150_000  # bytes, of which some is the allocator's


def test_memory_is_flat_and_nothing_is_lost(tmp_path):
    monitor = bt.Monitor(sinks=[JsonLines(tmp_path / "run.jsonl")])
    estimate = bt.estimator("posterior")
    draws = np.random.default_rng(0)
    held = []
    if not LONG:
        tracemalloc.start()
    try:
        for step in range(1, STEPS + 1):
            groups = random_batch(draws)
            estimate(groups)
            monitor.update(groups, step=step, reading=estimate)
            if step % (STEPS // 4) == 0:
                gc.collect()
                held.append(_resident() if LONG else tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    monitor.close()
    assert held[-1] - held[0] < GROWTH, held
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == STEPS


def _resident() -> int:
    """Return the bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")

"""A day of steps in short: the monitor's memory stays flat. ``BUTTRESS_SOAK=86400`` is the day."""

from __future__ import annotations

import gc
import os
import tracemalloc

import numpy as np

import buttress as bt
from buttress.hooks.sinks import JsonLines
from tests.hooks.monitored_runs import random_batch

STEPS = int(os.environ.get("BUTTRESS_SOAK", "2000"))
GROWTH = 150_000  # bytes, of which some is the allocator's


def test_memory_is_flat_and_nothing_is_lost(tmp_path):
    monitor = bt.Monitor(sinks=[JsonLines(tmp_path / "run.jsonl")])
    estimate = bt.estimator("posterior")
    draws = np.random.default_rng(0)
    held = []
    tracemalloc.start()
    try:
        for step in range(1, STEPS + 1):
            groups = random_batch(draws)
            estimate(groups)
            monitor.update(groups, step=step, reading=estimate)
            if step % (STEPS // 4) == 0:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    monitor.close()
    assert held[-1] - held[0] < GROWTH, held
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == STEPS

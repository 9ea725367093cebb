"""The forecast: what it gets right, how often its interval holds, when it keeps quiet."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import buttress as bt
from buttress.hooks.monitor.forecast import FEWEST, forecast
from buttress.hooks.monitor.series import BLOCKS, Series
from buttress.hooks.monitor.step_ranges import MOST, StepRanges
from buttress.hooks.monitor.step_statistics import StepStatistics


def test_a_straight_line_goes_on():
    found = forecast(np.arange(20.0), 5)
    assert found == pytest.approx((24.0, 24.0, 24.0), abs=1e-6)


def test_a_constant_stays_and_bounds_hold():
    assert forecast([0.5] * 20, 100) == (0.5, 0.5, 0.5)
    found = forecast(np.linspace(0, 0.9, 20), 30, bounds=(0, 1))
    assert found.value == found.high == 1.0


@pytest.mark.parametrize("values", [[], [0.5] * (FEWEST - 1), [0.5] * 5 + [math.nan] * 9])
def test_too_little_is_unknown(values):
    assert all(math.isnan(one) for one in forecast(values, 5))


def test_unknown_blocks_are_left_out():
    known = np.linspace(0.1, 0.4, 10)
    holes = np.insert(known, [3, 7], np.nan)
    assert forecast(holes, 4) == forecast(known, 4)


@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("ahead", [1, 10])
@pytest.mark.parametrize("blocks", [12, 40])
def test_intervals_hold_as_often_as_they_say(noise, ahead, blocks):
    """Random walks with drift, seen through noise: what the method is made for."""
    draws = np.random.default_rng(8)
    hits = 0
    for _ in range(600):
        walk = np.cumsum(draws.normal(0.2, 1.0, blocks + ahead))
        seen = walk + noise * draws.normal(size=len(walk))
        found = forecast(seen[:blocks], ahead)
        hits += found.low <= seen[-1] <= found.high
    assert hits / 600 >= 0.92


@given(st.lists(st.floats(0, 1), min_size=FEWEST, max_size=80), st.floats(0, 1000))
def test_any_series_gives_ordered_numbers_within_bounds(values, ahead):
    found = forecast(values, ahead, bounds=(0, 1))
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_monitor_foretells_the_end_of_its_own_run():
    draws = np.random.default_rng(9)

    def rewards(step):
        return (draws.random((16, 8)) < 0.1 + 0.3 * step / 400).astype(float)

    monitor = bt.Monitor(policies=[], total_steps=400)
    for step in range(1, 201):
        monitor.update(bt.Groups.from_dense(rewards(step)), step=step)
    found = monitor.metrics()
    assert found["buttress/forecast_low"] < 0.4 < found["buttress/forecast_high"]
    assert found["buttress/forecast"] == pytest.approx(0.4, abs=0.1)
    monitor.total_steps = None
    assert math.isnan(monitor.metrics()["buttress/forecast"])


# --- what it is made from ------------------------------------------------------------------------


def statistics(reward):
    return StepStatistics.of(bt.Groups.from_nested([[reward, reward]]))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.integers(0, 60))
def test_the_course_is_the_same_however_it_was_put_together(steps, cut):
    whole, first, second = Series(10), Series(10), Series(10)
    for at, step in enumerate(steps):
        whole.add(step, statistics(step / 100))
        (first if at < cut else second).add(step, statistics(step / 100))
    for one, other in ((first, second), (second, first)):
        merged = Series.restored(one.state())
        merged.merge(other)
        for mine, alone in zip(merged.table(), whole.table(), strict=True):
            np.testing.assert_allclose(mine, alone)
    assert len(whole.table().step) <= BLOCKS


@given(st.lists(st.integers(-50, 50), max_size=80))
def test_ranges_are_a_set_of_steps(steps):
    seen = StepRanges()
    for step in steps:
        seen.add(step)
    assert [step for step in range(-60, 60) if step in seen] == sorted(set(steps))
    assert len(seen) == len(set(steps))
    assert seen.last == (max(steps) if steps else None)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(seen.ranges))


def test_steps_far_apart_take_bounded_memory():
    seen = StepRanges()
    for step in range(0, 40 * MOST, 10):
        seen.add(step)
    assert len(seen.ranges) == MOST
    assert all(step in seen for step in range(0, 40 * MOST, 10))
    assert 40 * MOST - 5 not in seen

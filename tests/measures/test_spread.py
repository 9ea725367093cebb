"""Spread within and between groups, against an analysis of variance."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from buttress import Groups
from buttress.measures import SpreadSums, spread
from tests.measures.batches import batches, scorable


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_against_an_analysis_of_variance(offset):
    draws = np.random.default_rng(7)
    rows = [draws.normal(offset + i, 1, 3 + i) for i in range(6)]
    sums = spread(Groups.from_nested(rows))
    pooled = np.concatenate(rows)
    n, k = len(pooled), len(rows)
    assert sums.n == n
    assert sums.overall_sd == pytest.approx(pooled.std(), rel=1e-6)
    assert sums.mean == pytest.approx(pooled.mean(), rel=1e-12)
    f = ((sums.total - sums.within) / (k - 1)) / (sums.within / (n - k))
    assert f == pytest.approx(stats.f_oneway(*rows).statistic, rel=1e-6)


@given(batches())
@settings(max_examples=150, deadline=None)
def test_against_loops(groups):
    values = scorable(groups)
    flat = [v for group in values for v in group]
    sums = spread(groups)
    if not flat:
        assert math.isnan(sums.overall_sd)
        assert math.isnan(sums.within_sd)
        assert math.isnan(sums.within_share)
        return
    mean = math.fsum(flat) / len(flat)
    within = math.fsum((v - math.fsum(group) / len(group)) ** 2 for group in values for v in group)
    assert sums.total == pytest.approx(math.fsum((v - mean) ** 2 for v in flat), abs=1e-12)
    assert sums.within == pytest.approx(within, abs=1e-12)
    assert math.isnan(sums.within_share) or 0 <= sums.within_share <= 1


@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, -2.1, 1e17, 0.1 + 1e6])
@pytest.mark.parametrize("size", [3, 7, 16])
def test_equal_rewards_have_no_spread_at_all(value, size):
    groups = Groups.from_nested([[value] * size] * 5)
    sums = spread(groups)
    assert (sums.overall_sd, sums.within_sd) == (0.0, 0.0)
    assert math.isnan(sums.within_share)
    twice = sums + SpreadSums.of(groups)
    assert math.isnan(twice.within_share)


def test_tied_groups_have_no_spread_within():
    sums = spread(Groups.from_nested([[0.1] * 7, [0.7] * 7]))
    assert sums.within == 0.0
    assert sums.within_share == 0.0


def test_a_large_common_offset_costs_no_precision():
    near = spread(Groups.from_nested([[0, 1, 2], [5, 7, 9]]))
    far = spread(Groups.from_nested([[1e9, 1e9 + 1, 1e9 + 2], [1e9 + 5, 1e9 + 7, 1e9 + 9]]))
    assert far.within == near.within
    assert far.total == pytest.approx(near.total, rel=1e-12)


def test_deviations_beyond_float64_are_unknown():
    for rewards in ([[1e300, -1e300], [1e300, 0]], [[1.7e308, -1.7e308]]):
        sums = spread(Groups.from_nested(rewards))
        for one in (sums, sums + sums, sums + spread(Groups.from_nested([[0, 1]]))):
            assert math.isnan(one.overall_sd)
            assert math.isnan(one.within_sd)
            assert math.isnan(one.within_share)
    apart = spread(Groups.from_nested([[1e200, 1e200]])) + spread(Groups.from_nested([[0, 0]]))
    assert math.isnan(apart.overall_sd)
    assert apart.within_sd == 0.0

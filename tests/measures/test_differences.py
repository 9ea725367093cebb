"""Differences between two runs."""

import math

import numpy as np
import pytest
from scipy import stats

from buttress.errors import UsageError
from buttress.measures import paired_difference, rate_difference, wilson_interval

nan = math.nan


def test_rates_of_a_published_example():
    # R. Newcombe (1998), table II, 56/70 against 48/80, method 10
    found = rate_difference((48, 80), (56, 70))
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert (found.paired, math.isnan(found.p_value)) == (0, True)


def test_rates_turn_their_sign_with_the_order():
    one, two = rate_difference((3, 20), (9, 25)), rate_difference((9, 25), (3, 20))
    assert (one.value, one.low, one.high) == pytest.approx((-two.value, -two.high, -two.low))


@pytest.mark.parametrize("pair", [((0, 0), (1, 2)), ((1, 2), (0, 0)), ((nan, nan), (1, 2))])
def test_rates_without_trials(pair):
    assert all(math.isnan(bound) for bound in rate_difference(*pair)[:3])


def test_rates_stay_within_bounds():
    found = rate_difference((0, 5), (5, 5))
    assert found.value == 1
    assert found.high == 1
    low = wilson_interval(5, 5)[0] - 1 + 1
    assert found.low < low


@pytest.mark.parametrize("n", [1, 2, 3])
def test_too_few_pairs_give_a_value_without_bounds(n):
    found = paired_difference([0.0] * n, [0.5] * n)
    assert (found.value, found.paired) == (0.5, n)
    assert all(map(math.isnan, (found.low, found.high, found.p_value)))


def test_no_pairs():
    assert all(map(math.isnan, paired_difference([], [])[:4]))
    assert all(map(math.isnan, paired_difference([nan], [1.0])[:4]))


def test_pairs_with_unknown_values_are_left_out():
    found = paired_difference([0, nan, 0, 0, 0, 0], [1, 5, 1, nan, 2, 2])
    assert found == paired_difference([0, 0, 0, 0], [1, 1, 2, 2])
    assert found.paired == 4


def test_a_constant_difference_is_certain():
    found = paired_difference(np.zeros(50), np.full(50, 0.25))
    assert (found.value, found.low, found.high, found.p_value) == (0.25, 0.25, 0.25, 0)
    none = paired_difference(np.ones(50), np.ones(50))
    assert (none.value, none.p_value) == (0, 1)


def test_batch_means_of_a_square_number_of_pairs():
    draws = np.random.default_rng(2)
    apart = draws.normal(0.1, 1, 100)
    blocks = apart.reshape(10, 10).mean(axis=1)
    found = paired_difference(np.zeros(100), apart)
    expected = stats.ttest_1samp(blocks, 0)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("shapes", [(3, 4), (1, 4), ((2, 2), (2, 2))])
def test_series_of_different_shape(shapes):
    with pytest.raises(UsageError, match="one length"):
        paired_difference(np.zeros(shapes[0]), np.zeros(shapes[1]))


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_coverage_when_steps_resemble_their_neighbours(memory):
    draws = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        noise = draws.normal(size=400)
        for i in range(1, len(noise)):
            noise[i] += memory * noise[i - 1]
        found = paired_difference(np.zeros(400), 0.3 + noise)
        covered += found.low <= 0.3 <= found.high
    assert covered / 400 > 0.9

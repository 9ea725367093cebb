"""Intervals against their coverage, tests against SciPy."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from buttress.errors import UsageError
from buttress.measures import wilson_interval
from buttress.train.evaluation.scores import RESAMPLES, mean, paired, rate


@given(st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=1, max_size=40))
def test_a_rate_has_wilsons_interval_over_what_is_known(values):
    known = [one for one in values if not isnan(one)]
    found = rate(values)
    assert found.problems == len(known)
    expected = wilson_interval(sum(known), len(known))
    assert np.array_equal([found.low, found.high], expected, equal_nan=True)


def test_the_bootstrap_covers_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(1)
    covered = 0
    for run in range(200):
        found = mean(draw.beta(0.5, 1.5, size=80), seed=run)
        covered += found.low <= 0.25 <= found.high
    # 95 % of 200 is 190, standard deviation 3.1; the percentile bootstrap is a little narrow
    assert 178 <= covered <= 199


def test_the_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(2).random(60)
    found = mean(values, seed=3)
    known = stats.bootstrap((values,), np.mean, method="percentile", rng=4).confidence_interval
    assert found.low == pytest.approx(known.low, abs=0.01)
    assert found.high == pytest.approx(known.high, abs=0.01)


def test_unknown_is_not_zero():
    found = mean([nan, 0.5, nan])
    assert (found.value, found.problems) == (0.5, 1)
    assert isnan(mean([nan]).value)
    assert mean([]).problems == 0


def test_pairs_of_right_and_wrong_have_mcnemars_exact_test():
    first = [0] * 9 + [1] * 2 + [1] * 20
    second = [1] * 9 + [0] * 2 + [1] * 20
    found = paired(first, second)
    assert found.value == pytest.approx(7 / 31)
    assert found.p_value == pytest.approx(stats.binomtest(9, 11).pvalue)
    assert found.paired == 31
    assert found.low < 7 / 31 < found.high


def test_pairs_of_shares_have_a_sign_flip_test():
    draw = np.random.default_rng(5)
    first = draw.random(12)
    second = first + draw.normal(0.1, 0.15, size=12)
    exact = stats.permutation_test(
        (second - first,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    error = (exact * (1 - exact) / RESAMPLES) ** 0.5
    assert paired(first, second).p_value == pytest.approx(exact, abs=4 * error + 1 / RESAMPLES)


def test_equal_models_do_not_differ():
    found = paired([0.3, 0.5, nan], [0.3, 0.5, 1.0])
    assert (found.value, found.low, found.high, found.paired) == (0.0, 0.0, 0.0, 2)
    assert found.p_value == 1.0


def test_no_common_problem_gives_nothing():
    found = paired([nan, 1.0], [1.0, nan])
    assert isnan(found.value)
    assert isnan(found.p_value)
    with pytest.raises(UsageError, match="same problems"):
        paired([1.0], [1.0, 0.0])


def test_the_null_is_rejected_as_often_as_it_should_be():
    draw = np.random.default_rng(6)
    rejected = 0
    for run in range(200):
        apart = draw.normal(size=20)
        rejected += paired(np.zeros(20), apart, seed=run).p_value <= 0.05
    # 10 expected, standard deviation 3.1
    assert 1 <= rejected <= 20

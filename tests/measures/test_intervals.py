"""Intervals against SciPy, and their coverage in simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, t

from buttress import Groups
from buttress.errors import UsageError
from buttress.measures import CollapseCounts, clustered_rate_interval, wilson_interval


@given(n=st.integers(1, 5000), data=st.data(), confidence=st.sampled_from([0.5, 0.8, 0.95, 0.999]))
@settings(max_examples=200, deadline=None)
def test_wilson_against_scipy(n, data, confidence):
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(confidence, method="wilson")
    found = wilson_interval(k, n, confidence=confidence)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= found[0] <= k / n <= found[1] <= 1


@pytest.mark.parametrize("trials", [0, -1, math.nan, math.inf])
def test_no_trials_no_interval(trials):
    assert all(map(math.isnan, wilson_interval(0, trials)))
    assert all(map(math.isnan, clustered_rate_interval([], [])))
    assert all(map(math.isnan, clustered_rate_interval([0, 0], [0, 0])))


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, math.nan])
def test_confidence_is_a_share(confidence):
    for interval in (wilson_interval, clustered_rate_interval):
        with pytest.raises(UsageError, match="confidence"):
            interval([1], [2], confidence=confidence)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
@settings(max_examples=100, deadline=None)
def test_clusters_of_one_trial_give_the_plain_interval(hits):
    plain = wilson_interval(sum(hits), len(hits))
    assert clustered_rate_interval(hits, [1] * len(hits)) == pytest.approx(plain, abs=1e-12)
    rewards = [[1, 1] if hit else [0, 1] for hit in hits]
    for prompts in (None, range(len(hits))):
        counts = CollapseCounts.of(Groups.from_nested(rewards, prompt_id=prompts))
        assert counts.interval() == pytest.approx(plain, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_clustering_never_tells_more_than_independent_trials(pairs):
    hits, tries = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    low, high = clustered_rate_interval(hits, tries)
    if not sum(tries):
        assert math.isnan(low)
        return
    plain_low, plain_high = wilson_interval(sum(hits), sum(tries))
    assert 0 <= low <= sum(hits) / sum(tries) <= high <= 1
    assert high - low >= plain_high - plain_low - 1e-12


def test_a_design_effect_worked_by_hand():
    # rate 1/2 of 40; residuals 4, -4, 3, -3: variance 4/3 * 50 / 40^2 against 1/4 / 39
    design_effect = (4 / 3 * 50 / 1600) / (0.25 / 39)
    assert design_effect == pytest.approx(6.5)
    effective = 40 / 6.5 * (norm.ppf(0.975) / t.ppf(0.975, 3)) ** 2
    found = clustered_rate_interval([9, 1, 8, 2, 0], [10, 10, 10, 10, 0])
    assert found == pytest.approx(wilson_interval(effective / 2, effective), abs=1e-12)


def test_visits_to_one_prompt_are_one_cluster():
    rewards = [[1, 1]] * 30 + [[0, 1]] * 30
    prompts = ["solved"] * 30 + ["open"] * 30
    apart = CollapseCounts.of(Groups.from_nested(rewards)).interval()
    together = CollapseCounts.of(Groups.from_nested(rewards, prompt_id=prompts)).interval()
    assert together[1] - together[0] > 2 * (apart[1] - apart[0])


def test_a_rate_without_spread_counts_each_cluster_once():
    assert clustered_rate_interval([50, 50], [50, 50]) == wilson_interval(2, 2)
    assert clustered_rate_interval([0] * 5, [9] * 5) == wilson_interval(0, 5)
    assert clustered_rate_interval([30], [60]) == wilson_interval(0.5, 1)


@pytest.mark.parametrize("visits", [1, 3, 12])
@pytest.mark.parametrize("prompts", [12, 60])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (2, 2), (400, 100)])
def test_coverage(prompts, visits, a, b):
    draws = np.random.default_rng([prompts, visits, int(10 * a)])
    covered, runs = 0, 1000
    for _ in range(runs):
        tries = draws.integers(max(1, visits // 2), visits + visits // 2 + 1, prompts)
        hits = draws.binomial(tries, draws.beta(a, b, prompts))
        low, high = clustered_rate_interval(hits, tries)
        covered += low <= a / (a + b) <= high
    # 95 % nominal; three standard errors of the simulation are 2 %
    assert 0.925 <= covered / runs <= 0.995


def test_ignoring_the_clusters_would_not_cover():
    # the check above has teeth: the plain interval fails it by far
    draws = np.random.default_rng(5)
    covered = 0
    for _ in range(500):
        hits = draws.binomial(12, draws.beta(0.3, 0.3, 30))
        low, high = wilson_interval(int(hits.sum()), 12 * 30)
        covered += low <= 0.5 <= high
    assert covered / 500 < 0.6

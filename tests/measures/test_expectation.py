"""Expected ties at other group sizes: enumeration, closed forms, coverage of the intervals."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.measures import bounded_mean_interval, expected_ties, tie_chances, wilson_interval
from buttress.measures.difficulty import Difficulty


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 8))
def test_tie_chance_by_enumeration_of_all_subsets(rewards, size):
    counts = [[rewards.count(level) for level in range(4)]]
    (found,) = tie_chances(counts, size)
    subsets = list(combinations(rewards, size))
    if not subsets:
        assert np.isnan(found)
        return
    assert found == pytest.approx(np.mean([len(set(one)) == 1 for one in subsets]))


@given(st.floats(0, 1), st.integers(1, 9), st.integers(1, 9))
def test_the_mean_over_all_samples_is_the_closed_form(p, size, n):
    """Summed over every outcome of n rollouts with its probability: unbiased, without sampling."""
    n = max(n, size)
    wins = np.arange(n + 1)
    weight = np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in wins])
    chance = tie_chances(np.column_stack([wins, n - wins]), size)
    assert (weight * chance).sum() == pytest.approx(p**size + (1 - p) ** size, abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [(2, 4), (4, 8), (8, 16)])
def test_larger_groups_tie_less(first, second):
    counts = np.random.default_rng(0).integers(0, 9, (50, 2)) + 8
    assert (tie_chances(counts, first) >= tie_chances(counts, second)).all()


def test_bad_input_is_named():
    with pytest.raises(UsageError, match="prompt, level"):
        tie_chances([1, 2], 2)
    with pytest.raises(UsageError, match="1 or more"):
        tie_chances([[1, 2]], 0)
    with pytest.raises(UsageError, match="wins"):
        Difficulty.of([4], [5])


def test_nothing_known_is_unknown():
    none = expected_ties(np.zeros((0, 2)), 4)
    assert np.isnan([none.value, none.low, none.high]).all()
    assert expected_ties([[1, 1]], 4).prompts == 0
    assert Difficulty.of([], []) is None
    assert Difficulty.of([0, 0], [0, 0]) is None


@settings(deadline=None)  # the first call imports SciPy
@given(st.integers(0, 40), st.integers(1, 40))
def test_the_interval_of_zeros_and_ones_is_at_least_wilson(hits, misses):
    values = np.repeat([1.0, 0.0], [hits, misses])
    low, high = bounded_mean_interval(values)
    plain = wilson_interval(hits, hits + misses)
    assert 0 <= low <= hits / (hits + misses) <= high <= 1
    assert high - low >= plain[1] - plain[0] - 1e-9


POPULATIONS = {
    "alike": lambda rng, n: np.full(n, 0.18),
    "half out of reach": lambda rng, n: np.resize([0.0, 0.364], n),
    "spread": lambda rng, n: rng.beta(0.7, 1.2, n),
    "both ends": lambda rng, n: rng.choice([0.0, 0.4, 0.7, 1.0], n),
}


def covered(name, n_prompts, tries, sizes, runs, estimate):
    rng = np.random.default_rng(7)
    large = POPULATIONS[name](rng, 50_000)
    inside = np.zeros(len(sizes))
    for _ in range(runs):
        wins = rng.binomial(tries, POPULATIONS[name](rng, n_prompts))
        for place, size in enumerate(sizes):
            low, high = estimate(wins, size)
            truth = (large**size + (1 - large) ** size).mean()
            inside[place] += low <= truth <= high
    return inside / runs


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_intervals_of_the_counts_cover(name):
    def estimate(wins, size):
        return expected_ties(np.column_stack([wins, 8 - wins]), size)[1:3]

    assert (covered(name, 100, 8, (2, 8), 150, estimate) > 0.9).all()


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_intervals_of_the_model_cover_beyond_the_recorded_size(name):
    def estimate(wins, size):
        found = Difficulty.of(np.full(len(wins), 8), wins)
        return found.interval(found.ties(size))

    assert (covered(name, 120, 8, (16,), 10, estimate) >= 0.8).all()


def test_a12_beyond_the_rollouts_at_hand():
    rng = np.random.default_rng(0)
    alike, half = (
        Difficulty.of(np.full(800, 8), rng.binomial(8, np.resize(rate, 800)))
        for rate in ([0.18], [0.0, 0.364])
    )
    assert np.mean(alike.ties(16)) == pytest.approx(0.042, abs=0.03)
    assert np.mean(half.ties(16)) == pytest.approx(0.50, abs=0.04)
    low, high = half.interval(half.floor)
    assert low < 0.5 < high
    assert alike.interval(alike.floor)[1] < 0.06


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_ties_of_the_model_against_scipy(size):
    from scipy.stats import betabinom

    found = Difficulty.of([8] * 30, [0] * 10 + [3] * 10 + [8] * 10)
    between = betabinom.pmf(0, size, found.a, found.b)
    between = between + (betabinom.pmf(size, size, found.a, found.b) if size else 0)
    expected = found.floor + (1 - found.floor) * between
    np.testing.assert_allclose(found.ties(size), expected, rtol=1e-6)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2000), st.floats(0, 1)), min_size=1, max_size=20))
def test_any_counts_give_draws_within_reason(prompts):
    tries = np.array([n for n, _ in prompts])
    wins = np.rint(tries * [rate for _, rate in prompts]).astype(int)
    found = Difficulty.of(tries, wins)
    for draws in (found.floor, found.ties(2), found.ties(64)):
        assert np.isfinite(draws).all()
        assert ((draws >= 0) & (draws <= 1 + 1e-9)).all()
    assert (found.ties(64) <= found.ties(2) + 1e-9).all()


def test_the_same_counts_give_the_same_draws():
    first, second = (Difficulty.of([8, 8, 8], [0, 3, 8]) for _ in range(2))
    assert (first.floor == second.floor).all()

"""pass@k against counting and against whole numbers."""

from itertools import combinations
from math import comb, isnan

import numpy as np
import pytest

from buttress.errors import UsageError
from buttress.measures import pass_at_k


@pytest.mark.parametrize("tries", range(1, 8))
def test_pass_at_k_is_the_share_of_subsets_with_a_success(tries):
    for successes in range(tries + 1):
        outcomes = [1] * successes + [0] * (tries - successes)
        for k in range(1, tries + 1):
            subsets = [max(some) for some in combinations(outcomes, k)]
            found = pass_at_k([successes], [tries], k)[0]
            assert found == pytest.approx(np.mean(subsets), abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 16, 64, 128, 256])
def test_pass_at_k_to_256_against_whole_numbers(k):
    tries = 256
    successes = np.arange(tries + 1)
    exact = [1 - comb(tries - c, k) / comb(tries, k) for c in successes.tolist()]
    assert pass_at_k(successes, np.full(tries + 1, tries), k) == pytest.approx(exact, abs=1e-11)


def test_small_rates_keep_their_digits():
    assert pass_at_k([1], [10**6], 1)[0] == pytest.approx(1e-6, rel=1e-6)


def test_pass_at_k_of_the_mean_is_unbiased():
    draw = np.random.default_rng(0)
    won = draw.binomial(10, 0.3, size=200_000)
    found = pass_at_k(won, np.full(won.shape, 10), 4)
    assert found.mean() == pytest.approx(1 - 0.7**4, abs=0.003)


def test_too_few_tries_say_nothing():
    assert isnan(pass_at_k([1], [3], 4)[0])
    assert isnan(pass_at_k([0], [0], 1)[0])
    with pytest.raises(UsageError, match="1 or more"):
        pass_at_k([0], [1], 0)

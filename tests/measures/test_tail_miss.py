"""The probability of missing the rare right answers: closed forms, enumeration, real draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.measures import active_rate, tail_miss_rate

SIZES = [1, 2, 4, 8, 16, 32, 64, 128]


def test_against_the_numbers_of_the_lemma():
    """mu = 0.3, tau = 0.03: not monotone in the group size."""
    expected = [0, 0.378, 0.6399, 0.7261, 0.6109, 0.3773, 0.1424, 0.0203]
    assert tail_miss_rate(0.3, 0.03, SIZES) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(("mu", "tau"), [(0.3, 0.03), (0.5, 0.5), (0.9, 0.0), (1.0, 0.4), (0, 0)])
def test_against_every_group_there_is(mu, tau, size):
    """Answers of three kinds: rare right, common right, wrong."""
    chance = {"rare": tau, "common": mu - tau, "wrong": 1 - mu}
    mixed = missed = 0.0
    for group in itertools.product(chance, repeat=size):
        mass = float(np.prod([chance[answer] for answer in group]))
        if "wrong" in group and set(group) != {"wrong"}:
            mixed += mass
            missed += mass if "rare" not in group else 0.0
    assert active_rate(mu, size) == pytest.approx(mixed, abs=1e-12)
    assert tail_miss_rate(mu, tau, size) == pytest.approx(missed, abs=1e-12)


def test_against_draws_of_a_categorical_policy():
    draws = np.random.default_rng(0)
    policy = np.array([0.02, 0.01, 0.2, 0.15, 0.4, 0.22])  # two rare right, two right, two wrong
    groups = draws.choice(6, p=policy, size=(200_000, 8))
    right, rare = (groups < 4), (groups < 2)
    mixed = right.any(axis=1) & ~right.all(axis=1)
    assert active_rate(0.38, 8) == pytest.approx(mixed.mean(), abs=0.004)
    missed = (mixed & ~rare.any(axis=1)).mean()
    assert tail_miss_rate(0.38, 0.03, 8) == pytest.approx(missed, abs=0.004)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10_000))
def test_it_is_a_probability_below_that_of_being_mixed(mu, share, n):
    missed, mixed = tail_miss_rate(mu, share * mu, n), active_rate(mu, n)
    assert 0 <= missed <= mixed + 1e-12 <= 1 + 1e-12
    assert tail_miss_rate(mu, 0, n) == pytest.approx(mixed, abs=1e-12)
    assert tail_miss_rate(mu, mu, n) == pytest.approx(0, abs=1e-12)
    assert active_rate(1 - mu, n) == pytest.approx(mixed, rel=1e-9)


def test_small_probabilities_keep_their_digits():
    assert active_rate(1e-13, 8) == pytest.approx(8e-13, rel=1e-9)
    assert active_rate([0.0, 1.0, 0.5], [4, 4, 1]).tolist() == [0, 0, 0]


def test_shapes_and_unknowns():
    rates = tail_miss_rate([[0.3], [np.nan]], 0.03, SIZES)
    assert rates.shape == (2, 8)
    assert np.isnan(rates[1]).all()
    assert np.isnan(active_rate(np.nan, 4))


@pytest.mark.parametrize(
    ("given", "message"),
    [((1.5, 0.1, 4), "mu"), ((0.3, 0.4, 4), "tau"), ((0.3, -0.1, 4), "tau"), ((0.3, 0.1, 0), "n,")],
)
def test_bad_values(given, message):
    with pytest.raises(ValueError, match=message):
        tail_miss_rate(*given)

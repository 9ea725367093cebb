"""Solved and lost: where the stretch may lie, and how rarely chance is called loss."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.measures.mastery import _fisher, mastery, recent


def simulated(rate, prompts=100, visits=6, size=8, seed=0, comes_and_goes=0.0):
    """Return the mastery of prompts with a rate per prompt and visit."""
    rng = np.random.default_rng(seed)
    rates = np.array([[rate(i, v / visits) for v in range(visits)] for i in range(prompts)])
    rates = np.where(rng.random(rates.shape) < comes_and_goes, 0.0, rates)
    wins = rng.binomial(size, rates).astype(float).ravel()
    prompt, step = np.repeat(np.arange(prompts), visits), np.tile(np.arange(visits), prompts)
    order = rng.permutation(len(prompt))
    return mastery(
        prompt[order], step[order], np.full(len(prompt), size)[order], wins[order], prompts
    )


def lost_in(stretch):
    """Ten prompts are solved within a stretch of the run, the others learn."""

    def rate(i, time):
        if i < 10:
            return 0.97 if stretch[0] <= time < stretch[1] else 0.02
        return min(0.99, 0.02 + 1.2 * time)

    return rate


@pytest.mark.parametrize("stretch", [(0.0, 0.5), (0.3, 0.6), (0.5, 0.75)])
@pytest.mark.parametrize(("visits", "size"), [(8, 8), (16, 4), (24, 16)])
def test_a_stretch_anywhere_is_seen(stretch, visits, size):
    found = simulated(lost_in(stretch), visits=visits, size=size)
    assert found.lost[:10].sum() >= 9
    assert found.lost[10:].sum() <= 1
    assert found.p_value <= 0.01


@pytest.mark.parametrize(
    ("rate", "options"),
    [
        (lambda i, t: 0.5, {}),
        (lambda i, t: [0.97, 0.4][i % 2], {}),
        (lambda i, t: min(1, 0.05 + t), {}),
        (lambda i, t: 0.95, {"comes_and_goes": 0.5}),
        (lambda i, t: 0.9, {"comes_and_goes": 0.3, "visits": 12}),
        (lambda i, t: min(1, 0.1 + t), {"comes_and_goes": 0.2, "visits": 10}),
    ],
)
def test_chance_and_noise_between_visits_are_not_loss(rate, options):
    alarms = 0
    for seed in range(12):
        found = simulated(rate, prompts=60, seed=seed, **options)
        alarms += found.p_value <= 0.01 and found.lost.sum() >= 3
    assert alarms <= 1


def test_few_false_discoveries_among_constant_prompts():
    lost = sum(simulated(lambda i, t: 0.5, seed=seed, visits=10).lost.sum() for seed in range(20))
    assert lost <= 2


def test_gained_is_lost_backwards():
    found = simulated(lambda i, t: 0.97 if t >= 0.5 else 0.02)
    assert found.gained.sum() >= 98
    assert found.lost.sum() == 0


def test_two_stretches_by_fishers_test():
    # one prompt, two visits: the only pair there is
    for wins in range(5, 9):
        found = mastery(np.zeros(2, int), np.arange(2), np.full(2, 8), np.array([wins, 0.0]), 1)
        p = comb(8, wins) * comb(8, 0) / comb(16, wins)
        assert found.lost[0] == (wins >= 0.8 * 8 and p <= 0.05)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_fishers_test_against_scipy(n1, n2, data):
    from scipy.stats import fisher_exact

    k1, k2 = data.draw(st.integers(0, n1)), data.draw(st.integers(0, n2))
    ours = _fisher(*(np.array([one], dtype=float) for one in (n1, k1, n2, k2)))[0]
    table = [[k1, n1 - k1], [k2, n2 - k2]]
    assert ours == pytest.approx(fisher_exact(table, alternative="greater").pvalue, rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-1, 4), st.integers(0, 9), st.integers(0, 12), st.integers(0, 12)),
        max_size=40,
    )
)
def test_any_visits(visits):
    columns = np.array(visits, dtype=np.int64).reshape(-1, 4)
    wins = np.minimum(columns[:, 2], columns[:, 3]).astype(float)
    found = mastery(columns[:, 0], columns[:, 1], columns[:, 2], wins, 5)
    assert not (found.lost & ~found.compared).any()
    assert 0 < found.p_value <= 1
    tries, won = recent(columns[:, 0], columns[:, 1], columns[:, 2], wins, 5)
    assert (won <= tries).all()


def test_recent_takes_the_fewest_late_visits_with_enough_rollouts():
    prompt = np.array([0, 0, 0, 1, 1, 2])
    step = np.array([3, 1, 2, 1, 2, 1])
    tries = np.array([4, 8, 4, 8, 8, 3])
    wins = np.array([4.0, 0.0, 3.0, 8.0, 1.0, 2.0])
    n, k = recent(prompt, step, tries, wins, 4)
    assert n.tolist() == [8, 8, 3, 0]
    assert k.tolist() == [7, 1, 2, 0]

"""The simulators against exact enumeration and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from buttress.groups import Groups
from buttress.lab import rare_answers
from buttress.lab.simulator import (
    SoftmaxPolicy,
    expected_direction,
    sample_actions,
    sampled_direction,
    simulate,
)
from buttress.remedies import estimator

RIGHT = np.array([[True, False, False, True], [False, True, False, False]])
LOGITS = st.lists(st.floats(-2, 2), min_size=8, max_size=8).map(
    lambda values: np.array(values).reshape(2, 4)
)
STATELESS = ("grpo", "dr_grpo", "rloo", "ngrpo", "maxnorm_ac", "sign")


@pytest.mark.parametrize("method", STATELESS)
@settings(deadline=None, max_examples=15)
@given(logits=LOGITS)
def test_the_expected_direction_is_the_mean_over_all_groups(method, logits):
    chances, group = softmax(logits, axis=-1), 3
    expected = expected_direction(chances, RIGHT, group, method)
    every = np.array(list(itertools.product(range(4), repeat=group)))
    total = np.zeros_like(chances)
    for prompt in range(2):
        reward = RIGHT[prompt][every].astype(float)
        advantages = np.asarray(estimator(method)(Groups.from_dense(reward)))
        pairs = zip(every, advantages.reshape(every.shape), strict=True)
        for actions, given_ in pairs:
            chance = chances[prompt][actions].prod()
            total[prompt] += chance * sampled_direction(chances[prompt], actions, given_)
    np.testing.assert_allclose(expected, total, atol=1e-9)


@settings(deadline=None)
@given(logits=LOGITS, method=st.sampled_from(STATELESS))
def test_every_method_expects_to_move_along_the_success_rate(logits, method):
    chances = softmax(logits, axis=-1)
    p = (chances * RIGHT).sum(-1, keepdims=True)
    slope = chances * (RIGHT - p)  # ∇p of a softmax
    found = expected_direction(chances, RIGHT, 4, method)
    size = (found * slope).sum(-1, keepdims=True) / (slope**2).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, size * slope, atol=1e-9)


@settings(deadline=None)
@given(logits=LOGITS)
def test_all_wrong_groups_point_to_less_failure(logits):
    """Theorem B.4 of arXiv 2605.21125: E[∇ log π | all wrong] = ∇ log(1 - p), by enumeration."""
    chances, right, group = softmax(logits[0]), RIGHT[0], 2
    total, weight = np.zeros(4), 0.0
    for drawn in itertools.product(np.flatnonzero(~right), repeat=group):
        chance = chances[list(drawn)].prod()
        total += chance * sampled_direction(chances, np.array(drawn), np.ones(group))
        weight += chance
    p = chances[right].sum()
    closed = -chances * (right - p) / (1 - p)  # ∇ log(1 - p) of a softmax
    np.testing.assert_allclose(total / weight, closed, atol=1e-9)


def test_samples_follow_the_chances():
    chances = softmax(np.arange(12.0).reshape(3, 4) % 5, axis=-1)
    drawn = sample_actions(chances, 20_000, np.random.default_rng(0))
    for row, expected in zip(drawn, chances, strict=True):
        seen = np.bincount(row, minlength=4) / row.size
        assert np.abs(seen - expected).max() < 5 * np.sqrt(0.25 / row.size)


@pytest.mark.parametrize("method", ["grpo", "avspo", "posterior"])
def test_seeds_are_simulated_as_if_alone(method):
    generator = np.random.default_rng(0)
    features = generator.standard_normal((16, 5))
    right = generator.random((16, 6)) < 0.2
    right[:, 0] = True
    policy = SoftmaxPolicy(np.zeros((5, 6)), right, features)
    how = {"steps": 40, "prompts": 4, "group": 8, "rate": 0.5}
    together = simulate(policy, method, seeds=[3, 5], **how)
    alone = simulate(policy, method, seeds=[5], **how)
    np.testing.assert_allclose(together["success"][1], alone["success"][0], rtol=1e-9)
    assert together["success"].shape == (2, 40)
    assert together["success"][:, -1].mean() > together["success"][:, 0].mean() + 0.05


def small(generator, n=60, right=12):
    return softmax(generator.standard_normal(n)), right


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 8, 32]), st.sampled_from([0.0, 1.0]))
def test_direction_is_the_gradient_by_finite_differences(seed, n, gamma):
    generator = np.random.default_rng(seed)
    logits = generator.standard_normal(20)
    counts = generator.multinomial(n, softmax(logits))
    share = counts[:5].sum() / n
    centred = np.where(np.arange(20) < 5, 1.0, -1.0) - (2 * share - 1)

    def surrogate(at):
        return (1 - share) ** gamma * (counts / n * centred * softmax(at)).sum()

    found = rare_answers.direction(softmax(logits), counts, 5, gamma)
    for place in range(3):
        step = np.zeros(20)
        step[place] = 1e-5
        numeric = (surrogate(logits + step) - surrogate(logits - step)) / 2e-5
        assert found[place] == pytest.approx(numeric, abs=1e-8)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40))
def test_first_order_masses_are_the_papers(seed, n_drawn):
    """The closed forms of arXiv 2602.06717, against the sum over actions."""
    chances, right = small(np.random.default_rng(seed))
    drawn = np.zeros(60, bool)
    drawn[np.random.default_rng(seed + 1).choice(60, n_drawn, replace=False)] = True
    is_right, rate, n = np.arange(60) < right, 0.01, 8

    def mass(chosen, power=1):
        return float((chances[chosen] ** power).sum())

    s = mass(drawn & is_right) - mass(drawn & ~is_right)
    a2, b2 = mass(drawn & is_right, 2), mass(drawn & ~is_right, 2)
    unseen_right, unseen_wrong = mass(~drawn & is_right, 2), mass(~drawn & ~is_right, 2)
    q_right, q_wrong = mass(is_right), mass(~is_right)
    gained = (
        (1 - s) * q_wrong * a2
        + (s + 1) * q_right * b2
        + s * (q_right * unseen_wrong - q_wrong * unseen_right)
    )
    lost = -s * unseen_right - mass(~drawn & is_right) * (
        (1 - s) * a2 + (-1 - s) * b2 - s * (unseen_right + unseen_wrong)
    )
    found = rare_answers.first_order(chances, drawn, right, rate, n)
    assert found == pytest.approx((rate / n * gained, rate / n * lost), abs=1e-12)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_first_order_is_the_limit_of_small_steps(seed):
    chances, right = small(np.random.default_rng(seed))
    drawn = np.random.default_rng(seed + 1).random(60) < 0.3
    reward = np.where(drawn, np.where(np.arange(60) < right, 1.0, -1.0), 0.0)
    rate, n = 1e-4, 4
    after = softmax(np.log(chances) + rate / n * chances * (reward - reward @ chances))
    change = after - chances
    is_right = np.arange(60) < right
    found = rare_answers.first_order(chances, drawn, right, rate, n)
    actual = change[is_right].sum(), change[is_right & ~drawn].sum()
    assert found == pytest.approx(actual, abs=1e-10)


def test_the_setting_of_the_paper_starts_where_the_paper_says():
    setting = rare_answers.RareAnswers()
    chances = softmax(setting.logits())
    assert chances[: setting.right].sum() == pytest.approx(0.63008, abs=1e-5)
    assert chances[0] == pytest.approx(4.6527e-4, rel=1e-4)
    assert chances[1] == pytest.approx(6.2967e-5, rel=1e-4)


def test_middling_groups_lose_most_and_the_focal_weight_keeps_more():
    setting = rare_answers.RareAnswers(actions=12_800, right=1000)

    def retained(n, gamma=0.0):
        return rare_answers.simulate_retention(setting, n, gamma, steps=120, seed=0)["retained"]

    assert retained(8) < min(retained(2), retained(128)) - 0.02
    assert retained(8, gamma=1.0) > retained(8)
    assert retained(20_000) > 0.97


def test_retained_mass_by_hand():
    assert rare_answers.retained_mass(np.array([0.2, 0.2]), np.array([0.3, 0.1])) == 0.75
    assert rare_answers.retained_mass(np.array([0.2, 0.2]), np.array([0.3, 0.2])) == 1.0

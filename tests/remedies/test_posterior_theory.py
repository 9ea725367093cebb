"""The theorems of docs/posterior.md, by enumeration of every group of a categorical policy."""

import copy
import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt

logits = st.lists(st.floats(-2, 2), min_size=2, max_size=4)
beliefs = st.floats(0.01, 0.99)
strengths = st.sampled_from([0.0, 0.5, 4.0, 16.0])
sizes = st.integers(2, 4)
few = settings(max_examples=25, deadline=None)


class Policy:
    """A softmax over a few answers, the first of which is right; its groups with their chances."""

    def __init__(self, logits):
        weights = np.exp(logits)
        self.chance = weights / weights.sum()
        self.right = (np.arange(len(logits)) == 0).astype(float)
        self.score = np.eye(len(logits)) - self.chance
        self.p = self.chance[0]
        self.gradient = (self.chance * self.right) @ self.score

    def groups(self, size):
        for answers in itertools.product(range(len(self.chance)), repeat=size):
            drawn = list(answers)
            yield self.chance[drawn].prod(), self.right[drawn], self.score[drawn]

    def mean(self, function):
        """Expectation over one rollout of a function of its reward and score."""
        return sum(
            chance * function(reward, score)
            for chance, reward, score in zip(self.chance, self.right, self.score, strict=True)
        )


@few
@given(logits, beliefs, strengths, sizes)
def test_bias_and_variance_of_the_undivided_update(logits, v, s, size):
    policy = Policy(logits)
    first, second = np.zeros(len(logits)), 0.0
    for chance, rewards, scores in policy.groups(size):
        update = (rewards - (s * v + rewards.sum()) / (s + size)) @ scores
        first += chance * update
        second += chance * update @ update
    factor = (1 - 1 / (s + size)) * size
    assert first == pytest.approx(factor * policy.gradient)
    p, g2 = policy.p, policy.gradient @ policy.gradient
    delta, omega = v - p, s / (s + size - 1)
    m = policy.mean(lambda r, score: score @ score)
    skew = policy.mean(lambda r, score: (r - p) * (score @ score))
    best = policy.mean(lambda r, score: (r - p) ** 2 * (score @ score)) - g2
    error = omega**2 * delta**2 * m - 2 * omega * delta * skew
    others = (size - 1) * (p * (1 - p) * m + g2) / (s + size - 1) ** 2
    expected = (best + error + others) / size
    assert (second - first @ first) / factor**2 == pytest.approx(expected, abs=1e-12)


@given(st.floats(0.02, 0.98), st.floats(-0.5, 0.5).filter(lambda d: abs(d) > 1e-3), sizes)
def test_the_best_strength_beats_the_group_and_the_history(p, delta, size):
    """Precisions add: the error at s = V/δ² is below GRPO's (s = 0) and REINFORCE's (s = ∞)."""
    n, variance = size - 1, p * (1 - p)

    def error(s):
        return (s**2 * delta**2 + n * variance) / (s + n) ** 2

    best = error(variance / delta**2)
    assert best == pytest.approx(1 / (1 / delta**2 + n / variance))
    assert best < min(variance / n, delta**2)
    assert all(best <= error(s) + 1e-12 for s in np.geomspace(1e-3, 1e6, 60))


@few
@given(logits, st.sampled_from([0.0, 0.3, 0.9]), st.sampled_from([0.0, 4.0, 16.0]), sizes)
def test_division_and_clip_keep_every_prompts_direction(logits, solved, s, size):
    """E Σ A S = G (E f(1, K + 1) - E f(0, K)) ∇p, with the estimator itself as f."""
    policy = Policy(logits)
    est = bt.estimator("posterior", strength=s, norm="own")
    history = (np.random.default_rng(3).random((6, 8)) < solved).astype(float)
    for row in history:
        est(bt.Groups.from_nested([row.tolist()], prompt_id=["p"]))
    total, weight, seen = np.zeros(len(logits)), 0.0, {}
    for chance, rewards, scores in policy.groups(size):
        groups = bt.Groups.from_nested([rewards.tolist()], prompt_id=["p"])
        advantages = copy.deepcopy(est)(groups)
        assert (advantages[rewards == 1] >= 0).all()
        assert (advantages[rewards == 0] <= 0).all()
        total += chance * advantages @ scores
        for reward, advantage in zip(rewards, advantages, strict=True):
            seen[reward, rewards.sum()] = advantage
    for k in range(size):  # successes among the others
        chance = comb(size - 1, k) * policy.p**k * (1 - policy.p) ** (size - 1 - k)
        weight += chance * (seen[1, k + 1] - seen[0, k])
    assert weight >= 0
    assert total == pytest.approx(size * weight * policy.gradient, abs=1e-9)

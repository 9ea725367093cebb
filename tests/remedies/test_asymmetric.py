"""a_grae and ha_dw: hard and easy prompts, up and down."""

import numpy as np
import pytest

import buttress as bt


def run(name, rewards, **options):
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards))


def test_a_grae_by_hand():
    rewards = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=float)
    p = rewards.mean(axis=1)
    w = p.mean()
    plain = run("grpo", rewards.tolist(), eps=1e-6).reshape(3, 4)[:2]
    share = w / 2 / np.sqrt(p[:2]) + (1 - w) / 2 / np.sqrt(1 - p[:2])
    expected = share[:, None] * plain
    expected = np.where(expected > 0, min(1, w / 0.5) * expected, expected)
    got = run("a_grae", rewards.tolist(), alpha=0.5).reshape(3, 4)
    assert got[:2] == pytest.approx(expected)
    assert (got[2] == 0).all()


def test_ha_dw_against_the_released_code():
    """The mean of the last batches, this one included, as the expectation; scale 1.5."""
    est = bt.estimator("ha_dw", belief="window", window=2, scale=1.5)
    draws = np.random.default_rng(0)
    means = []
    for _ in range(4):
        rewards = draws.integers(0, 2, (5, 6)).astype(float)
        means.append(rewards.mean())
        expected = np.mean(means[-2:])
        group_mean = rewards.mean(axis=1, keepdims=True)
        apart = rewards - group_mean
        direction = -np.sign(group_mean - expected) * np.sign(apart)
        scale = 1.5 * np.exp(direction * np.abs(group_mean - expected))
        wanted = scale * apart / (rewards.std(axis=1, ddof=1, keepdims=True) + 1e-6)
        assert est(bt.Groups.from_dense(rewards)) == pytest.approx(wanted.reshape(-1))
        assert est.reading["belief"] == pytest.approx(expected)


def test_ha_dw_filter():
    est = bt.estimator("ha_dw", eta=0.5)
    for rewards, belief in (([1, 1, 1, 0], 0.75), ([1, 0, 0, 0], 0.75), ([0, 1], 0.5)):
        est(bt.Groups.from_nested([rewards]))
        assert est.reading["belief"] == belief
    # 0.75, then 0.75 + 1/2 (0.25 - 0.75) = 0.5 at rate eta, then at rate eta * std
    est(bt.Groups.from_nested([[0, 1]]))
    assert est.reading["belief"] == pytest.approx(0.5)


def test_ha_dw_pushes_hard_successes_and_easy_failures():
    est = bt.estimator("ha_dw", belief="window")
    rewards = [[1, 0, 0, 0], [1, 1, 1, 0]]
    got = np.abs(est(bt.Groups.from_nested(rewards)) / run("grpo", rewards, eps=1e-6)).reshape(2, 4)
    assert got[0, 0] > 1.3 > got[0, 1]
    assert got[1, 3] > 1.3 > got[1, 0]

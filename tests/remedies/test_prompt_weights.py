"""f_grpo, mcpo, bnpo and is_grpo: what each prompt weighs."""

import numpy as np
import pytest
from scipy import stats

import buttress as bt


def run(name, rewards, **options):
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards))


def group(right, size=8):
    return [1.0] * right + [0.0] * (size - right)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("base", ["grpo", "dr_grpo", "rloo", "reinforce_pp"])
def test_focal_weight(gamma, base):
    rewards = [group(k) for k in range(9)]
    got = run("f_grpo", rewards, gamma=gamma, base=base).reshape(9, 8)
    plain = run(base, rewards).reshape(9, 8)
    p = np.arange(9) / 8
    assert got == pytest.approx((1 - p[:, None]) ** gamma * plain)


def test_focal_weight_reads_other_reward_levels():
    zero_one = run("f_grpo", [group(6), group(1)], eps=0)
    signed = run("f_grpo", [[2 * r - 1 for r in group(6)], [2 * r - 1 for r in group(1)]], eps=0)
    assert signed == pytest.approx(zero_one)
    given = run("f_grpo", [[2 * r for r in group(6)]], bounds=(0, 2), eps=0)
    assert given == pytest.approx(zero_one[:8])


def test_focal_base_options_and_mistakes():
    assert run("f_grpo", [group(4)], gamma=0, eps=0, ddof=0).max() == 1.0
    with pytest.raises(ValueError, match="another advantage estimator"):
        bt.estimator("f_grpo", base="f_grpo")
    with pytest.raises(ValueError, match="unknown remedy"):
        bt.estimator("f_grpo", base="nothing")


def test_focal_keeps_the_state_of_its_base():
    est = bt.estimator("f_grpo", base="avspo")
    est(bt.Groups.from_nested([group(0)]))
    twin = bt.estimator("f_grpo", base="avspo")
    twin.load_state_dict(est.state_dict())
    assert twin.state_dict()["base"]["steps"] == 1
    assert est(bt.Groups.from_nested([group(0)]))[0] < 0


def test_mcpo_weight_is_that_of_one_half_above_one_half():
    """The query weight p (1 - p) / std of the paper: sqrt(p (1 - p)) below, 1/2 above."""
    rewards = [group(k, 16) for k in range(1, 16)]
    got = np.abs(run("mcpo", rewards, eps=0, ddof=0).reshape(15, 16)).mean(axis=1) / 2
    p = np.arange(1, 16) / 16
    assert got == pytest.approx(np.where(p > 0.5, 0.5, np.sqrt(p * (1 - p))))


def test_mcpo_does_not_blow_up_on_near_perfect_fractions():
    assert np.abs(run("mcpo", [[1, 1, 1, 0.999]], eps=0)).max() < 10


def test_bnpo_against_the_beta_density():
    counts = [1, 2, 3, 6, 7]
    rewards = [group(k) for k in counts]
    p = np.array(counts) / 8
    mean, variance = p.mean(), p.var(ddof=1)
    strength = mean * (1 - mean) / variance - 1
    alpha = max(1, 1 + strength * mean / 3)
    beta = max(1, 1 + strength * (1 - mean) / 3)
    weight = np.minimum(1 / stats.beta.pdf(p, alpha, beta), 1e6)
    expected = (np.array(rewards) - p[:, None]) * weight[:, None]
    assert run("bnpo", rewards) == pytest.approx(expected.reshape(-1))


def test_bnpo_without_spread_between_the_groups_is_the_mean_baseline():
    rewards = [group(2), group(2)]
    assert run("bnpo", rewards) == pytest.approx(run("dr_grpo", rewards))


def test_is_grpo_keeps_the_direction_of_the_plain_update():
    rewards = [group(k) for k in (1, 2, 4, 8)]
    got, plain = run("is_grpo", rewards, eps=0), run("dr_grpo", rewards)
    assert got * plain.max() == pytest.approx(plain * got.max())
    draws = [run("is_grpo", rewards, eps=0, draw="sampled", seed=seed) for seed in range(4000)]
    assert np.mean(draws, axis=0) == pytest.approx(got, abs=0.08)
    # one draw is a whole number of normalised groups
    times = draws[0][:24] / run("grpo", rewards, eps=0)[:24]
    assert times == pytest.approx(times.round())

"""Replay against a plain loop over the steps, and what its numbers must obey."""

from __future__ import annotations

import numpy as np
import pytest

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.remedies import estimator
from buttress.remedies.registry import names
from buttress.remedies.replay import replay


def recorded(seed=0, n=60, size=6, steps=5, **columns):
    rng = np.random.default_rng(seed)
    rate = rng.beta(0.5, 0.5, size=n)
    rewards = (rng.random((n, size)) < rate[:, None]).astype(float)
    step = rng.permutation(np.arange(n) % steps)
    prompt = rng.integers(0, 12, n)
    return Groups.from_dense(rewards, step=step, prompt_id=prompt, **columns)


@pytest.mark.parametrize("name", ["grpo", "avspo", "dcpo", "posterior", "reinforce_pp"])
def test_equals_a_plain_loop(name):
    groups = recorded()
    estimate = estimator(name)
    squares, tied_squares, moved, largest = 0.0, 0.0, 0, 0.0
    for step in range(5):
        part = groups.select(groups.step == step)
        advantages = np.asarray(estimate(part)).reshape(len(part), -1)
        rewards = part.rewards.reshape(len(part), -1)
        for own, rewarded in zip(advantages, rewards, strict=True):
            squares += float((own**2).sum())
            tied_squares += float((own**2).sum()) if len(set(rewarded)) == 1 else 0.0
            moved += int((own != 0).sum())
            largest = max(largest, float(np.abs(own).max()))
    [outcome] = replay(groups, [name])
    assert outcome.effective_batch == pytest.approx(moved / groups.n_samples)
    assert outcome.tied_share == pytest.approx(tied_squares / squares)
    assert outcome.largest == pytest.approx(largest)
    assert outcome.norm == pytest.approx((squares / groups.n_samples) ** 0.5)


def test_grpo_changes_nothing_against_itself():
    [outcome] = replay(recorded(), ["grpo"])
    assert outcome.acr_before == outcome.acr_after
    assert outcome.sign_changes == 0.0
    assert outcome.tied_share == 0.0


def test_every_estimator_and_sampler_is_replayed_or_says_why_not():
    outcomes = replay(recorded())
    assert [outcome.name for outcome in outcomes] == names("advantage", "token", "sampling")
    for outcome in outcomes:
        assert outcome.skipped or 0 <= outcome.acr_after <= 1
        if outcome.skipped:
            assert "column" in outcome.skipped


def test_what_looks_at_one_group_at_a_time_is_played_at_once_with_the_same_result():
    groups = recorded(n=300, steps=20)
    for name in names("advantage"):
        estimate = estimator(name)
        parts = [np.asarray(estimate(groups.select(groups.step == step))) for step in range(20)]
        flat = np.concatenate(parts)
        [outcome] = replay(groups, [name])
        assert outcome.norm == pytest.approx(np.sqrt((flat**2).mean()), rel=1e-12), name
        assert outcome.effective_batch == (flat != 0).mean(), name


def test_phantom_needs_correctness():
    groups = Groups.from_nested([[0, -0.5], [1, 0]], correct=[[0, 0], [1, 0]])
    [outcome] = replay(groups, ["dr_grpo"])
    assert outcome.phantom == pytest.approx(2 * 0.25**2 / (2 * 0.25**2 + 2 * 0.5**2))
    [unknown] = replay(Groups.from_nested([[0, -0.5]]), ["dr_grpo"])
    assert np.isnan(unknown.phantom)


def test_order_of_the_groups_does_not_matter():
    groups = recorded()
    shuffled = groups.select(np.argsort(groups.step, kind="stable"))
    for one, other in zip(replay(groups), replay(shuffled), strict=True):
        assert one.norm == pytest.approx(other.norm, nan_ok=True)


def test_nothing_recorded():
    [outcome] = replay(Groups.from_nested([]), ["grpo"])
    assert np.isnan(outcome.acr_before)
    assert np.isnan(outcome.norm)


def test_unknown_remedy():
    with pytest.raises(UsageError, match="avspo"):
        replay(recorded(), ["avsop"])


def test_remedies_of_other_kinds_are_listed_as_skipped():
    reward, loss = replay(recorded(), ["intuitor", "sapo"])
    assert "reward" in reward.skipped
    assert "loss" in loss.skipped
    assert np.isnan(loss.extra_rollouts)

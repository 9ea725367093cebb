"""What ways of sampling would have cost: against plain loops, closed cases and real draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.groups import Groups
from buttress.remedies.pools import DifficultyPools
from buttress.remedies.replay import Outcome, Recorded, replay
from buttress.remedies.resampled import resampled
from buttress.remedies.sampling import Greso


def run(mixed_of_step, per_step, size=4, **columns):
    """A run in which so many groups of each step are mixed, the others all wrong."""
    mixed = np.array([n < live for live in mixed_of_step for n in range(per_step)])
    rewards = np.zeros((len(mixed), size))
    rewards[mixed, 0] = 1.0
    step = np.repeat(np.arange(len(mixed_of_step)), per_step)
    return Groups.from_dense(rewards, step=step, **columns)


def outcome(groups, name, **options) -> Outcome:
    [found] = replay(groups, [name], options=options)
    return found


def batches(mixed, per_step, limit, keep):
    """How many batches dynamic sampling generates, counted by hand."""
    ahead = [*range(len(mixed)), *range(len(mixed) - 2, 0, -1)] or [0]
    kept = generated = 0
    for step in range(len(mixed)):
        for n in range(limit):
            kept += mixed[ahead[(step + n) % len(ahead)]]
            generated += 1
            if kept >= per_step:
                break
        kept = max(kept - per_step, 0) if keep else 0
    return generated


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=8), st.sampled_from([1, 3, 10]), st.booleans()
)
def test_dynamic_sampling_counts_the_batches(mixed, limit, keep):
    found = outcome(
        run(mixed, 6), "dynamic_sampling", max_batches=limit, keep_surplus=keep, on_limit="short"
    )
    generated = batches(mixed, 6, limit, keep)
    assert found.rollouts == pytest.approx(generated / len(mixed))
    assert found.extra_rollouts == pytest.approx((generated - len(mixed)) * 6 * 4)


def test_dynamic_sampling_of_prompts_that_are_alike_costs_one_over_the_live_share():
    draws = np.random.default_rng(0)
    rewards = (draws.random((20_000, 4)) < 0.2).astype(float)
    groups = Groups.from_dense(rewards, step=np.arange(20_000) // 100)
    found = outcome(groups, "dynamic_sampling")
    assert found.rollouts == pytest.approx(1 / (1 - found.acr_before), rel=0.02)
    assert found.acr_after == 0
    assert found.effective_batch == 1
    assert found.tied_share == 0
    grpo = outcome(groups, "grpo")
    assert found.norm == pytest.approx(grpo.norm / np.sqrt(grpo.effective_batch), rel=0.02)
    assert found.largest == grpo.largest


def test_whole_batches_cost_more_where_the_surplus_is_thrown_away():
    """6 of 10 live: two batches a step without the surplus, 5/3 with it."""
    groups = run([6] * 30, 10)
    assert outcome(groups, "dynamic_sampling", keep_surplus=False).rollouts == 2
    found = outcome(groups, "dynamic_sampling")
    assert found.rollouts == pytest.approx(5 / 3, abs=0.02)
    assert "1.67 times" in found.how
    assert "2.00 times if the surplus is thrown away" in found.how


def test_a_dead_run_is_resampled_up_to_the_limit_and_trains_on_nothing():
    found = outcome(run([0, 0, 0], 4), "dynamic_sampling")
    assert found.rollouts == 10
    assert found.extra_rollouts == 9 * 3 * 4 * 4
    assert np.isnan(found.acr_after)
    assert np.isnan(found.norm)
    assert "3 of 3 steps do not fill up" in found.how


def test_a_healthy_run_needs_nothing_more():
    found = outcome(run([4, 4], 4), "dynamic_sampling")
    assert found.rollouts == 1
    assert found.extra_rollouts == 0


def visits(seed=0, steps=60):
    """Every step tries the same prompts: four are never solved, four always, four sometimes."""
    draws = np.random.default_rng(seed)
    rate = np.tile(np.repeat([0.0, 1.0, 0.5], 4), steps)
    rewards = (draws.random((len(rate), 8)) < rate[:, None]).astype(float)
    prompt = np.tile([f"p{n}" for n in range(12)], steps)
    return Groups.from_dense(rewards, prompt_id=prompt.tolist(), step=np.repeat(range(steps), 12))


def test_greso_saves_what_the_sampler_skips_on_average():
    """The expected number of rollouts is that of real draws, over many seeds."""
    groups = visits()
    drawn, expected = [], []
    for seed in range(40):
        expected.append(outcome(groups, "greso", seed=seed).rollouts)
        sampler, sampled = Greso(seed=seed), 0
        for step in range(60):
            part = groups.select(groups.step == step)
            chosen = sampler.choose(part.prompt_id.tolist())
            sampled += int(chosen.sum())
            sampler.update(part.select(chosen))
        drawn.append(sampled / len(groups))
    assert np.mean(expected) == pytest.approx(np.mean(drawn), abs=0.01)
    assert 1 / 3 < np.mean(expected) < 0.6  # the four that differ are always sampled


def test_greso_keeps_what_differs_and_lowers_the_acr():
    groups = visits()
    recorded = Recorded(groups)
    played = resampled("greso", recorded.steps, recorded.tolerance, {})
    tied = recorded.summary.tied
    assert (played.weight[tied][-24:] < 0.6).all()
    sometimes = np.char.add("p", np.arange(8, 12).astype(str))
    live = np.isin(recorded.groups.prompt_id.astype(str), sometimes) & ~tied
    assert played.weight[live].mean() > 0.95
    found = outcome(groups, "greso")
    assert found.extra_rollouts == pytest.approx((found.rollouts - 1) * groups.n_samples)
    assert found.extra_rollouts < 0
    assert found.acr_after < found.acr_before
    weight = played.weight
    assert found.acr_after == pytest.approx(weight[tied].sum() / weight.sum())


def test_pools_draw_other_groups_for_the_same_rollouts():
    groups = visits()
    found = outcome(groups, "difficulty_pools")
    assert found.rollouts == 1
    assert found.extra_rollouts == 0
    assert found.acr_after < found.acr_before
    closed = outcome(groups, "difficulty_pools", weights={"easy": 0.0, "hard": 0.0})
    assert closed.acr_after < 0.05
    # the first visits are all unseen, later ones weigh by pool: 1/4 hard, 1/10 easy, 1 medium
    recorded = Recorded(groups)
    weight = resampled("difficulty_pools", recorded.steps, recorded.tolerance, {}).weight
    assert weight[:12].tolist() == [1.0] * 12
    last = np.repeat([0.25, 0.1, 1.0], 4)
    assert weight[-12:] == pytest.approx(last * 12 / last.sum())
    pools = DifficultyPools()
    pools.update(groups)
    assert pools.weight_of(["p0", "p4", "p8", "new"]).tolist() == [0.25, 0.1, 1.0, 1.0]


@pytest.mark.parametrize("name", ["greso", "difficulty_pools"])
def test_what_remembers_prompts_says_where_it_cannot(name):
    unknown = outcome(run([2, 2], 4), name)
    assert "which prompt" in unknown.skipped
    assert np.isnan(unknown.extra_rollouts)
    once = outcome(run([2, 2], 4, prompt_id=list("abcdefgh")), name)
    assert "no prompt comes twice" in once.how
    assert once.extra_rollouts == 0


@pytest.mark.parametrize("name", ["greso", "difficulty_pools"])
@pytest.mark.parametrize("scale", [(0, 1), (-1, 1), (0, 2), (0.1, 1.1)])
def test_levels_of_the_run_are_read(name, scale):
    """The same decisions for any two levels; where 0.1 is wrong, a verdict has to say so."""
    low, high = scale
    groups = visits()
    verdict = groups.rewards
    moved = Groups.from_dense(
        (low + (high - low) * verdict).reshape(-1, 8),
        prompt_id=list(groups.prompt_id),
        step=groups.step,
        **({"correct": verdict.reshape(-1, 8)} if low == 0.1 else {}),
    )
    assert outcome(moved, name).acr_after == pytest.approx(outcome(groups, name).acr_after)


def test_every_estimator_takes_the_recorded_rollouts_as_they_are():
    for name in ("grpo", "filter_drop", "maxnorm_ac", "spo"):
        found = outcome(visits(), name)
        assert (found.rollouts, found.extra_rollouts, found.how) == (1.0, 0.0, "")


@pytest.mark.parametrize("name", ["dynamic_sampling", "greso", "difficulty_pools"])
def test_nothing_recorded(name):
    found = outcome(Groups.from_nested([]), name)
    assert np.isnan(found.extra_rollouts)
    assert np.isnan(found.acr_after)

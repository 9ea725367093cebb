"""The posterior advantage: what its page claims."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies.belief import PULL


def posterior(**options):
    plain = {"strength": "auto", "forget": "auto", "clip": 1e9, "eps": 0, "norm": "own"}
    return bt.estimator("posterior", **{**plain, **options})


def visit(est, *rewards, ids=None):
    ids = ids or [f"p{i}" for i in range(len(rewards))]
    return est(bt.Groups.from_nested([list(row) for row in rewards], prompt_id=ids))


def beta(history, row, batch_mean, strength, forget):
    """The Beta belief of the first trial, for one prompt, with 0/1 rewards."""
    right = wrong = 0.0
    for past in history:
        right = forget * right + sum(past)
        wrong = forget * wrong + len(past) - sum(past)
    v = (right + PULL * batch_mean) / (right + wrong + PULL)
    b = (strength * v + sum(row)) / (strength + len(row))
    spread = np.sqrt(b * (1 - b))
    return (np.array(row) - b) / spread if spread > 1e-6 else np.zeros(len(row))


visits = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1, max_size=5
)


@given(visits, st.sampled_from([0.5, 4.0, 20.0]), st.sampled_from([0.0, 0.7, 1.0]))
def test_beta_belief(rewards, strength, forget):
    est = posterior(strength=strength, forget=forget)
    seen = np.zeros(2)
    for step, row in enumerate(rewards):
        other = [1.0, 0.0, 1.0, 1.0]
        seen = seen * 0.95 + [sum(row) + sum(other), 8]  # the running batch mean
        got = visit(est, row, other)[:4]
        expected = beta(rewards[:step], row, seen[0] / seen[1], strength, forget)
        assert got == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
@pytest.mark.parametrize("strength", [0.5, 4.0, 64.0])
def test_bounds(size, strength):
    """|A| <= sqrt(G + s - 1), and <= sqrt(s / G) in a tied group."""
    draws = np.random.default_rng(1)
    for prior in (0.02, 0.5, 0.98):
        for rewards in (
            np.zeros(size),
            np.ones(size),
            np.eye(size)[0],
            draws.random(size),
            draws.normal(size=size) * 1e3,
        ):
            est = posterior(strength=strength)
            past = (draws.random((200, 8)) < prior).astype(float)
            visit(est, *past, ids=["p0"] * 200)
            got = np.abs(visit(est, rewards))
            assert got.max() <= np.sqrt(size + strength - 1) + 1e-9
            if np.ptp(rewards) == 0:
                assert got.max() <= np.sqrt(strength / size) + 1e-9


rows_of_any_rewards = st.lists(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), min_size=1, max_size=6
)


@settings(deadline=None)
@given(st.lists(rows_of_any_rewards, min_size=1, max_size=5), st.floats(0, 64))
def test_bounds_hold_for_any_rewards_and_any_history(steps, strength):
    """|A| <= sqrt(G + s - 1), and <= sqrt(s / G) where the group is exactly tied; then the clip."""
    est, clipped = posterior(strength=strength), posterior(strength=strength, clip=0.5)
    for rows in steps:
        got, start = np.abs(visit(est, *rows)), 0
        assert np.isfinite(got).all()
        assert np.abs(visit(clipped, *rows)).max() <= 0.5
        for row in rows:
            own = got[start : start + len(row)]
            start += len(row)
            assert own.max() <= np.sqrt(max(len(row) + strength - 1, 1)) * (1 + 1e-6)
            if len(set(row)) == 1:
                assert own.max() <= np.sqrt(strength / len(row)) * (1 + 1e-6)


def test_surprise_decides_how_hard_a_tied_group_is_pushed():
    est = posterior(strength=4.0)
    solved, hopeless, even = [1] * 8, [0] * 8, [1, 0] * 4
    for _ in range(6):
        visit(est, solved, hopeless, even)
    got = visit(est, [0] * 8, [0] * 8, [0] * 8)[[0, 8, 16]]
    assert got[0] < got[2] < got[1] < 0
    v = 0.0  # all wrong: A = -sqrt(s v / (s (1 - v) + G)), here read back for the prior mean
    for a in got:
        v = (a**2 * (4 + 8) / 4) / (1 + a**2)
        assert a == pytest.approx(-np.sqrt(4 * v / (4 * (1 - v) + 8)))
    assert 0 < v < 1


def test_the_world_may_be_shifted_and_stretched():
    draws = np.random.default_rng(2)
    plain, moved = posterior(), posterior()
    for _ in range(5):
        rewards = draws.integers(0, 3, (6, 8)) / 2
        expected = visit(plain, *rewards)
        assert visit(moved, *(20 * rewards - 7)) == pytest.approx(expected, abs=1e-6)


def test_without_strength_it_is_grpo():
    rewards = [[1, 0, 0, 1], [1, 1, 1, 0], [0.3, 0.4, 2.0, 0.0]]
    grpo = bt.estimator("grpo", eps=0, ddof=0)(bt.Groups.from_nested(rewards))
    assert visit(posterior(strength=0), *rewards) == pytest.approx(grpo)


def test_tied_only_leaves_mixed_groups_to_grpo():
    rewards = [[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    got = visit(posterior(tied_only=True), *rewards)
    assert got[:4] == pytest.approx([1, -1, -1, 1])
    assert got[4] > 0 > got[8]


def test_clip():
    def seen(rewards, **options):
        return visit(bt.estimator("posterior", norm="own", **options), *rewards)

    rewards = [[1] + [0] * 63, *[[0] * 64] * 20]
    assert seen(rewards).max() == 3.0
    assert seen(rewards, clip=2).max() == 2.0
    rewards = [[0] + [1] * 63, *[[1] * 64] * 20]
    assert seen(rewards).min() == -1.0
    assert seen(rewards, clip=[2.5, 1]).min() == -2.5


def test_grpo_norm_turns_the_step_and_keeps_its_length():
    rewards = [[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    own, scaled = (visit(posterior(norm=norm), *rewards) for norm in ("own", "grpo"))
    grpo = bt.estimator("grpo", eps=0, ddof=1)(bt.Groups.from_nested(rewards))
    assert np.linalg.norm(scaled) == pytest.approx(np.linalg.norm(grpo))
    assert np.linalg.norm(scaled) == pytest.approx(np.sqrt(3 + 3))
    assert scaled / np.linalg.norm(scaled) == pytest.approx(own / np.linalg.norm(own))
    est = posterior(norm="grpo")
    visit(est, *rewards)
    silent = visit(est, [1] * 4, [0] * 4)
    assert (silent == 0).all()
    assert est.reading["acr_after"] == 1.0


def test_grpo_norm_does_not_blow_rounding_up():
    """A spread that is nothing beside what was believed stays small."""
    est, own = bt.estimator("posterior"), bt.estimator("posterior", norm="own")
    for one in (est, own):
        visit(one, [0, 1000] * 4, [1000, 0] * 4)
    rewards = [[500, 500.001] * 4, [500] * 8]
    got, plain = visit(est, *rewards), visit(own, *rewards)
    assert 0 < np.abs(plain).max() < 1e-4
    assert got == pytest.approx(4 * plain)


def test_grpo_norm_needs_the_whole_step():
    whole = bt.Groups.from_nested([[1, 0, 0, 1], [1, 1, 1, 1]])
    est = bt.estimator("posterior")
    with pytest.raises(ValueError, match="got 4 of 8: gather the rewards"):
        est(whole.select([0]), batch=est.statistics(whole))


def test_where_nothing_else_was_ever_seen_there_is_no_signal():
    est = bt.estimator("posterior", eps=0)
    for _ in range(4):
        assert (visit(est, [0.7] * 8, [0.7] * 8) == 0).all()


def test_without_prompts_the_belief_is_the_batch_mean():
    est = posterior(strength=4.0)
    for _ in range(3):
        got = est(bt.Groups.from_nested([[0] * 4, [1] * 4, [1, 1, 0, 1]]))
    b = 4 * 7 / 12 / 8
    assert got[:4] == pytest.approx(np.full(4, -b / np.sqrt(b * (1 - b))))
    assert est.reading["prompts"] == 0


def test_undivided_update_keeps_every_prompts_direction():
    """E[Σ (r_i - b) ∇log π_i] = (1 - 1/(G + s)) G ∇p, by enumeration of all groups."""
    logits = np.array([0.2, -0.5, 0.4])
    policy = np.exp(logits) / np.exp(logits).sum()
    right = np.array([1.0, 0.0, 0.0])
    score = np.eye(3) - policy
    grad_p = (policy * right) @ score
    size, s, v = 3, 4.0, 0.35
    total = np.zeros(3)
    for answers in itertools.product(range(3), repeat=size):
        drawn = list(answers)
        rewards = right[drawn]
        b = (s * v + rewards.sum()) / (s + size)
        total += policy[drawn].prod() * ((rewards - b) @ score[drawn])
    assert total == pytest.approx((1 - 1 / (size + s)) * size * grad_p)


@pytest.mark.parametrize("concentration", [1.0, 4.0, 16.0])
def test_strength_is_that_of_the_population(concentration):
    """Prompts from Beta(c/2, c/2), each seen once: the belief is the batch mean, worth c."""
    found = []
    for seed in range(4):
        draws, est = np.random.default_rng(seed), posterior()
        for _ in range(60):
            p = draws.beta(concentration / 2, concentration / 2, (64, 1))
            est(bt.Groups.from_dense((draws.random((64, 8)) < p).astype(float)))
        found.append(est.reading["strength"])
    assert np.mean(found) == pytest.approx(concentration, rel=0.15)


def baseline_error(options, drift, seed=0, size=8):
    """Mean squared distance of b from the true success rates of prompts that wander."""
    draws = np.random.default_rng(seed)
    logit = draws.normal(0, 2, 64)
    est = posterior(**options)
    errors = []
    for step in range(80):
        logit += draws.normal(0, drift, 64)
        p = 1 / (1 + np.exp(-logit))
        rewards = (draws.random((64, size)) < p[:, None]).astype(float)
        groups = bt.Groups.from_dense(rewards, prompt_id=list(range(64)))
        prior = est._belief.prior(groups, est.statistics(groups).reward)
        b = (prior.strength * prior.mean + rewards.sum(axis=1)) / (prior.strength + size)
        est(groups)
        if step >= 20:
            errors.append(((b - p) ** 2).mean())
    return np.mean(errors)


@pytest.mark.parametrize("drift", [0.0, 0.3, 1.0])
def test_empirical_bayes_beats_the_constants_and_the_group_mean(drift):
    auto = baseline_error({}, drift)
    assert auto < baseline_error({"strength": 4.0, "forget": 0.7}, drift) * 1.02
    assert auto < baseline_error({"strength": 0}, drift)


def test_memory_follows_the_drift():
    def memory(drift):
        draws = np.random.default_rng(4)
        logit, est = draws.normal(0, 2, 64), posterior()
        for _ in range(80):
            logit += draws.normal(0, drift, 64)
            rewards = draws.random((64, 8)) < (1 / (1 + np.exp(-logit)))[:, None]
            visit(est, *rewards.astype(float))
        return est.reading["forget"]

    assert memory(0.0) == 0.95
    assert memory(1.5) <= 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": "strong"}, "strength must be 'auto' or a number"),
        ({"strength": -1}, "strength"),
        ({"forget": 1.5}, "forget"),
        ({"clip": 0}, "clip must be a number above 0"),
        ({"clip": (1.0, -3.0)}, "clip must be a number above 0"),
        ({"clip": (1.0, 2.0, 3.0)}, "clip must be a number or two of them"),
        ({"clip": "wide"}, "clip must be a number or two of them"),
        ({"tied_only": "yes"}, "tied_only"),
        ({"norm": "half"}, "norm"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        bt.estimator("posterior", **options)

"""A bonus that right and wrong answers get alike must not decide which of them are right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies import TokenColumns, registry
from buttress.remedies.pools import DifficultyPools
from buttress.remedies.sampling import Greso

JUDGING = [
    name for name in registry.names("advantage", "token", "sampling")
    if "success" in registry.page(name).options
]  # fmt: skip
ESTIMATORS = [name for name in JUDGING if registry.kind_of(name) != "sampling"]
BONUSES = [0.1, 0.5, 1.0, 2.0, -0.2, -1.0]
WRONG, RIGHT, MIXED = [0.0] * 4, [1.0] * 4, [1.0, 0.0, 0.0, 1.0]

every = pytest.mark.parametrize("name", ESTIMATORS)
bonuses = pytest.mark.parametrize("bonus", BONUSES)


def step(*correct, bonus=0.0, known=True, worth=1.0):
    """Groups whose reward is correctness plus a bonus; the verdict may be left out."""
    right = np.array(correct, dtype=float)
    columns = {"correct": right} if known else {}
    entropy = np.linspace(0.2, 0.9, right.shape[1])[None].repeat(len(right), axis=0)
    return bt.Groups.from_dense(worth * right + bonus, entropy=entropy, **columns)


def per_group(est, groups):
    return np.asarray(est(groups)).reshape(len(groups), -1)


def test_every_remedy_that_reads_success_off_the_reward_has_the_choice():
    levelled = [
        name for name in registry.names("advantage", "token", "sampling")
        if "bounds" in registry.page(name).options
    ]  # fmt: skip
    assert set(JUDGING) == {"avspo", *levelled}
    for name in JUDGING:
        assert registry.page(name).options["success"] == "correct"
        assert "correct" in registry.page(name).inferred


@every
@bonuses
def test_a_constant_bonus_does_not_turn_wrong_into_right(name, bonus):
    """Also in a run that never showed anything else, and beside groups of the other kind."""
    options = {"threshold": "always"} if name == "avspo" else {}
    for others in ([], [RIGHT], [MIXED, RIGHT]):
        est = bt.estimator(name, **options)
        for _ in range(2):
            got = per_group(est, step(WRONG, *others, bonus=bonus))
            assert np.isfinite(got).all()
            assert (got[0] <= 0).all()
        if registry.lookup(name).signals_ties and name not in ("f_grpo", "ep_grpo"):
            assert (got[0, :-1] < 0).all()


@every
@bonuses
def test_a_missing_bonus_does_not_turn_right_into_wrong(name, bonus):
    """Right answers whose whole reward is a bonus or a penalty."""
    options = {"threshold": "always"} if name == "avspo" else {}
    for others in ([], [WRONG]):
        est = bt.estimator(name, **options)
        for _ in range(2):
            got = per_group(est, step(RIGHT, *others, bonus=bonus, worth=0.0))
            assert (got[0] >= 0).all()
    assert (got[0] > 0).all() == (name in ("avspo", "sign", "rl_zvp"))


@every
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), min_size=1, max_size=6)
)
def test_where_the_reward_is_the_verdict_nothing_changes(name, rows):
    for options in ({}, {"threshold": "always"}) if name == "avspo" else ({},):
        judged, plain = bt.estimator(name, **options), bt.estimator(name, **options)
        for _ in range(3):
            expected = per_group(plain, step(*rows, known=False))
            assert per_group(judged, step(*rows)) == pytest.approx(expected, abs=1e-9)


@every
def test_the_reward_decides_where_it_is_told_to(name):
    plain, told = bt.estimator(name), bt.estimator(name, success="reward")
    for bonus in BONUSES:
        rows = [WRONG, RIGHT, MIXED]
        expected = per_group(plain, step(*rows, bonus=bonus, known=False))
        assert per_group(told, step(*rows, bonus=bonus)).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="success must be one of 'correct', 'reward'"):
        bt.estimator(name, success="score")


@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize("strategy", ["stratified", "fixed", "exponential", "uniform"])
def test_avspo_takes_the_anchor_for_a_wrong_group(bonus, strategy):
    """The same advantage as for a reward of exactly 0: it moves with the group's reward."""
    options = {"threshold": "always", "strategy": strategy, "eps": 0.0}
    expected = per_group(bt.estimator("avspo", **options), step(WRONG, MIXED))[0]
    got = per_group(bt.estimator("avspo", **options), step(WRONG, MIXED, bonus=bonus))[0]
    assert got == pytest.approx(expected)
    both = step(WRONG, MIXED, bonus=bonus)
    only = {"only": "correct"}
    assert (per_group(bt.estimator("avspo", **options, **only), both)[0] == 0).all()
    only = {"only": "wrong"}
    assert (per_group(bt.estimator("avspo", **options, **only), both)[0] < 0).all()


def test_ngrpo_pushes_a_wrong_group_down_by_its_constant_whatever_it_earned():
    for bonus in BONUSES:
        got = per_group(bt.estimator("ngrpo", eps=0), step(WRONG, bonus=bonus))
        assert got[0] == pytest.approx(np.full(4, -1 / np.sqrt(5)))


def test_sign_goes_by_the_verdict_of_each_rollout():
    groups = bt.Groups.from_nested([[0.3, 1.3, 0.0, 1.0]], correct=[[0.0, 1.0, None, None]])
    assert bt.estimator("sign", bounds=(0, 1))(groups).tolist() == [-1, 1, -1, 1]


def test_weights_take_the_success_rate_from_the_verdicts():
    """Reward 1 + correct / 2 lies at the top of [0, 1] for all; 3 of 4 are wrong."""
    rows = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
    shaped = step(*rows, bonus=1.0, worth=0.5)
    for name in ("mcpo", "f_grpo", "a_grae", "ha_dw"):
        est = {"eps": 0.0}
        expected = per_group(bt.estimator(name, **est), step(*rows))
        assert per_group(bt.estimator(name, **est), shaped) == pytest.approx(expected)


@every
def test_ranks_agree_where_only_one_of_them_knows_verdicts(name):
    judged, plain = step(WRONG, MIXED, bonus=0.5), step(RIGHT, MIXED, bonus=0.5, known=False)
    ests = [bt.estimator(name) for _ in range(2)]
    total = ests[0].statistics(judged) + ests[1].statistics(plain)
    for est, groups in zip(ests, (judged, plain), strict=True):
        assert np.isfinite(np.asarray(est(groups, batch=total))).all()


def test_ep_grpo_directs_tied_groups_by_the_verdict():
    groups = step(WRONG, RIGHT, bonus=1.0)
    draws = np.random.default_rng(0)
    columns = {name: draws.normal(size=(8, 6)) for name in ("logp", "ref_logp")}
    tokens = TokenColumns(np.ones((8, 6)), entropy=draws.random((8, 6)), **columns)
    got = bt.estimator("ep_grpo", buckets=1)(groups, tokens)
    signal = columns["logp"] - columns["ref_logp"]
    for rows, sign in ((slice(0, 4), -1), (slice(4, 8), 1)):
        z = (signal[rows] - signal[rows].mean()) / (signal[rows].std() + 1e-4)
        assert got[rows] == pytest.approx(sign * z)


@pytest.mark.parametrize("bonus", BONUSES)
def test_sampling_goes_by_the_verdict(bonus):
    rows = [WRONG, RIGHT, MIXED]
    groups = bt.Groups.from_dense(
        np.array(rows) + bonus, prompt_id=["hard", "easy", "live"], correct=np.array(rows)
    )
    greso, pools = Greso(), DifficultyPools()
    for _ in range(3):
        greso.update(groups)
        pools.update(groups)
    assert pools.pool_of(["hard", "easy", "live"]) == ["hard", "easy", "medium"]
    chance = greso.probability(["hard", "easy", "live"])
    assert chance[0] < 0.2
    assert chance[1] < 0.2
    assert chance[2] == 1

"""AVSPO against the closed forms of its paper, step by step."""

import itertools

import numpy as np
import pytest

import buttress as bt
from buttress.remedies import virtual
from buttress.remedies.avspo import virtual_count

# G, K, (mean', std') of an all-correct and of an all-wrong group, |A'|
TABLE = [
    (4, 1, (0.9, 0.2), (0.02, 0.04), 0.5),
    (4, 2, (0.833333, 0.254588), (0.025, 0.038188), 0.654654),
    (4, 4, (0.75, 0.295804), (0.03125, 0.036975), 0.845154),
    (8, 1, (0.944444, 0.157135), (0.011111, 0.031427), 0.353553),
    (8, 2, (0.9, 0.213437), (0.015, 0.032016), 0.468521),
    (8, 3, (0.863636, 0.246881), (0.018182, 0.032918), 0.552345),
    (8, 4, (0.833333, 0.268742), (0.020833, 0.033593), 0.620174),
    (8, 8, (0.75, 0.30807), (0.028125, 0.034658), 0.811503),
    (16, 4, (0.9, 0.223607), (0.0125, 0.027951), 0.447214),
    (16, 8, (0.833333, 0.277778), (0.01875, 0.03125), 0.6),
    (16, 16, (0.75, 0.315063), (0.026562, 0.033475), 0.793492),
]


def avspo(**options):
    return bt.estimator("avspo", **options)


def step(est, *rewards, **columns):
    return est(bt.Groups.from_nested(list(rewards), **columns))


@pytest.mark.parametrize(("size", "k", "right", "wrong", "advantage"), TABLE)
def test_closed_forms(size, k, right, wrong, advantage):
    for reward, (mean, std) in ((1.0, right), (0.0, wrong)):
        values = np.append(
            np.full(size, reward), virtual.stratified(np.array([reward]), 0.1, np.array([k]))
        )
        assert values.mean() == pytest.approx(mean, abs=1e-6)
        assert values.std() == pytest.approx(std, abs=1e-6)
        assert abs(reward - mean) / std == pytest.approx(advantage, abs=1e-4)


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_the_ladder_has_the_moments_of_the_stratified_rewards(k):
    top, count = np.array([0.0, 1.0, 0.4, 2.0]), np.full(4, k)
    listed = virtual.Virtual.of(virtual.stratified(top, 0.1, count), count)
    step = np.where(top > 0, top / (k + 1), 0.1 / k)
    for got, expected in zip(virtual.ladder(step, count), listed, strict=True):
        assert got == pytest.approx(expected)


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16, 33])
@pytest.mark.parametrize("anchor", [0.001, 0.1, 1.0])
def test_advantage_of_a_tied_group(size, anchor):
    """|A| = sqrt(3K(K+1) / (2(2K+1)(G+K) - 3K(K+1))), whatever the anchor, and <= sqrt(K/G)."""
    for tied in range(1, 11):
        rewards = [[1.0] * size if i % 2 else [0.0] * size for i in range(tied)]
        rewards += [[1.0] + [0.0] * (size - 1)] * (10 - tied)
        est = avspo(threshold="always", eps=0, anchor=anchor)
        got = step(est, *rewards)[: tied * size].reshape(tied, size)
        k = est.reading["K"]
        assert k == max(1, min(size, int(np.ceil(size * np.sqrt(tied / 10) - 1e-9))))
        expected = np.sqrt(3 * k * (k + 1) / (2 * (2 * k + 1) * (size + k) - 3 * k * (k + 1)))
        sign = np.where(np.arange(tied) % 2, 1, -1)[:, None]
        assert got == pytest.approx(np.broadcast_to(sign * expected, got.shape), abs=1e-9)
        assert expected <= np.sqrt(k / size) + 1e-12


def test_population_deviation_and_eps_by_hand():
    est = avspo(threshold="always", eps=1e-4, alpha=1e-9)
    got = step(est, [0] * 8, [1] * 8)
    assert got[[0, 8]] == pytest.approx([-0.80917, 0.81124], abs=1e-5)


def test_virtual_count_table():
    counts = [int(virtual_count(np.array([8]), tied / 8, 0.5)[0]) for tied in range(1, 9)]
    assert counts == [3, 4, 5, 6, 7, 7, 8, 8]
    # 9 · sqrt(1/9) and 49 · sqrt(1/49) are whole numbers whatever the rounding says
    assert [int(virtual_count(np.array([n]), 1 / n, 0.5)[0]) for n in (9, 25, 49)] == [3, 5, 7]
    assert virtual_count(np.array([2, 8, 100]), 0.25, 0.5).tolist() == [1, 4, 50]


@pytest.mark.parametrize(
    ("strategy", "wrong", "right"),
    [
        ("stratified", [0.1, 0.2 / 3, 0.1 / 3], [0.75, 0.5, 0.25]),
        ("fixed", [0.05] * 3, [0.5] * 3),
        ("exponential", 0.1 * np.exp([-0.5, -1, -1.5]), np.exp([-0.5, -1, -1.5])),
    ],
)
def test_strategies(strategy, wrong, right):
    est = avspo(threshold="always", strategy=strategy, alpha=0.25, eps=0)
    got = step(est, [0] * 4, [1] * 4, [0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0])
    assert est.reading["K"] == 4  # ⌈4 · (1/3)^(1/4)⌉
    est = avspo(threshold="always", strategy=strategy, alpha=0.5, eps=0)
    got = step(est, [0] * 4, [1] * 4, [0, 1, 0, 1], [0, 0, 1, 1])
    assert est.reading["K"] == 3
    for reward, drawn, part in ((0, wrong, got[:4]), (1, right, got[4:8])):
        values = np.append(np.full(4, float(reward)), drawn)
        assert part == pytest.approx(np.full(4, (reward - values.mean()) / values.std()))


def test_uniform_draws_repeat_with_the_seed_and_go_on_after_a_restart():
    first, second = avspo(strategy="uniform", seed=3), avspo(strategy="uniform", seed=3)
    rewards = [[0] * 8, [1] * 8]
    assert step(first, *rewards).tolist() == step(second, *rewards).tolist()
    resumed = avspo(strategy="uniform", seed=99)
    resumed.load_state_dict(first.state_dict())
    assert step(first, *rewards).tolist() == step(resumed, *rewards).tolist()
    assert step(avspo(strategy="uniform", seed=4), *rewards).tolist() != step(first).tolist()


def test_trigger_is_strict():
    half = ([0, 0], [0, 1])
    est = avspo(threshold=0.5)
    assert step(est, *half)[:2].tolist() == [0, 0]
    assert est.reading["triggered"] is False
    assert est.reading["K"] == 0
    est = avspo(threshold=0.49)
    assert step(est, *half)[0] < 0
    assert est.reading["triggered"] is True
    assert est.reading["acr_after"] == 0.0
    # "always" is any rate above 0
    assert step(avspo(threshold="always"), [0, 0], *[[0, 1]] * 30)[0] < 0


@pytest.mark.parametrize(
    ("only", "signs"), [("both", (-1, 1)), ("wrong", (-1, 0)), ("correct", (0, 1))]
)
def test_only_one_side(only, signs):
    est = avspo(only=only)
    got = step(est, [0] * 4, [1] * 4)
    assert np.sign(got[[0, 4]]).tolist() == list(signs)
    assert est.reading["augmented"] == (2 if only == "both" else 1)


def test_threshold_path():
    """τ moves after the step, by the sign of the change of the mean reward, inside its bounds."""
    est = avspo(threshold_rate=0.1)
    wrong, mixed, right = [0, 0], [0, 1], [1, 1]
    path = []
    for batch in ([wrong, mixed], [right, mixed], [mixed, mixed], [wrong, wrong], [wrong, wrong]):
        step(est, *batch)
        path.append(est.reading["threshold"])
    path.append(est.reading["next_threshold"])
    # no change known; up with ACR 1/2; down with ACR 0; down with ACR 1; unchanged mean
    expected = [0.5, 0.5, 0.5, 0.55, 0.55 - 0.1 * 0.45, 0.505]
    assert path == pytest.approx(expected)


def test_threshold_stays_in_its_bounds():
    est = avspo(threshold_rate=1.0, threshold_bounds=(0.2, 0.8))
    for mean_down in ([1, 1], [0.5, 0.5], [0.25, 0.25], [0.1, 0.1]):
        step(est, mean_down)
        assert 0.2 <= est.reading["next_threshold"] <= 0.8
    assert est.reading["next_threshold"] == 0.2


def test_equal_means_in_another_order_are_no_change():
    est = avspo()
    step(est, [0.1, 0.2, 0.3], [0.7] * 3)
    step(est, [0.3, 0.1, 0.2], [0.7] * 3)
    assert est.reading["next_threshold"] == 0.5


def test_an_undefined_rate_changes_nothing():
    est = avspo(threshold="always")
    assert step(est, [None, 1], []).tolist() == [0, 0]
    assert est.reading["triggered"] is False
    assert np.isnan(est.reading["acr"])
    assert est.reading["next_threshold"] == 0.0


def test_negative_rewards_are_shifted_by_the_lowest_seen():
    always = {"threshold": "always", "eps": 0}
    zero_one, sign = avspo(**always), avspo(**always)
    expected = step(zero_one, [0] * 4, [1] * 4, [0, 1, 0, 1])
    # -1/+1 is 0/2 after the shift, and equation 9 scales with the reward
    assert step(sign, [-1] * 4, [1] * 4, [-1, 1, -1, 1]) == pytest.approx(expected)
    # 0 has been seen to be better than wrong: it now counts as correct
    assert step(sign, [0] * 4)[0] > 0
    assert step(zero_one, [0] * 4)[0] < 0


def test_mixed_groups_are_grpo_bit_for_bit():
    rng = np.random.default_rng(0)
    rewards = [rng.normal(size=n).tolist() for n in (2, 5, 9, 16)]
    tied = [[0.0] * 3, [1.0] * 7]
    for eps, ddof in itertools.product((1e-6, 1e-2), (0, 1)):
        got = step(avspo(threshold="always", eps=eps, ddof=ddof), *rewards, *tied)
        expected = step(bt.estimator("grpo", eps=eps, ddof=ddof), *rewards, *tied)
        assert got[:32].tolist() == expected[:32].tolist()


def test_untriggered_float_twins_are_exactly_zero():
    twins = np.full((3, 8), 0.7, dtype=np.float32)
    got = avspo(threshold=1.0)(bt.Groups.from_dense(twins))
    assert (got == 0).all()


def test_between_wrong_and_correct_counts_as_correct():
    got = step(avspo(eps=0), [0.5] * 8)
    assert got == pytest.approx(np.full(8, 0.811503), abs=1e-6)


def test_ranks_that_share_the_batch_statistics_give_the_single_process_result():
    parts = [[[0, 0], [0, 1]], [[0, 0], [1, 1]]]
    one = avspo()
    whole = step(one, *parts[0], *parts[1])
    ranks = [avspo(), avspo()]
    groups = [bt.Groups.from_nested(part) for part in parts]
    total = sum(
        (est.statistics(g) for est, g in zip(ranks[1:], groups[1:], strict=True)),
        ranks[0].statistics(groups[0]),
    )
    got = [est(g, batch=total) for est, g in zip(ranks, groups, strict=True)]
    assert np.concatenate(got).tolist() == whole.tolist()
    assert {est.reading["acr"] for est in ranks} == {0.75}


def test_merge_averages_the_thresholds_and_keeps_the_lowest_reward():
    first, second = avspo(threshold_rate=0.5), avspo(threshold_rate=0.5)
    for est, lows in ((first, (0, 1)), (second, (-1, -2))):
        step(est, [lows[0]] * 2)
        step(est, [lows[1]] * 2)
    thresholds = [est.state_dict()["threshold"] for est in (first, second)]
    first.merge(second)
    assert first.state_dict()["threshold"] == pytest.approx(np.mean(thresholds))
    assert first.state_dict()["lowest"] == -2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": "sometimes"}, "adaptive"),
        ({"threshold": 1.5}, r"in \[0, 1\]"),
        ({"threshold": True}, r"in \[0, 1\]"),
        ({"alpha": 0}, "alpha"),
        ({"anchor": -0.1}, "anchor"),
        ({"strategy": "random"}, "stratified"),
        ({"only": "left"}, "both"),
        ({"threshold_bounds": (0.9, 0.1)}, "threshold_bounds"),
        ({"threshold_bounds": 0.5}, "pair"),
        ({"threshold_init": 0.95}, r"in \[0.1, 0.9\]"),
        ({"treshold": 0.5}, "Did you mean 'threshold'"),
    ],
)
def test_bad_options_fail_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        avspo(**options)


def test_expected_update_of_a_tied_group():
    """E[update | all wrong] = A₀ ∇log(1 - p) and E[update | all right] = A₁ ∇log p (theorem B.4).

    Exact enumeration of all groups of a softmax policy over four answers, two of them right.
    """
    logits = np.array([0.3, -0.4, 0.1, 0.9])
    policy = np.exp(logits) / np.exp(logits).sum()
    right = np.array([True, True, False, False])
    size = 3
    score = np.eye(4) - policy  # ∇ log pi(y) with respect to the logits, row by row
    p = policy[right].sum()
    grad_p = policy[right] @ score[right]
    for wanted, grad_log in ((False, -grad_p / (1 - p)), (True, grad_p / p)):
        update, mass = np.zeros(4), 0.0
        for answers in itertools.product(range(4), repeat=size):
            drawn = list(answers)
            if (right[drawn] != wanted).any():
                continue
            advantage = step(avspo(threshold="always", eps=0), right[drawn].astype(float).tolist())
            weight = policy[drawn].prod()
            mass += weight
            update += weight * (advantage @ score[drawn]) / size
        constant = step(avspo(threshold="always", eps=0), [float(wanted)] * size)[0]
        assert update / mass == pytest.approx(constant * grad_log)
        assert (constant > 0) == wanted

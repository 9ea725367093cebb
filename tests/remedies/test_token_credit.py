"""ep_grpo, grpo_vps and rl_zvp per token: hand-worked groups, and the same in plain loops."""

from dataclasses import replace
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies import TokenColumns
from buttress.remedies.token_credit import segment_ends, segments_by_entropy
from tests.remedies.tokens import batch

quick = settings(max_examples=25, deadline=None)
nan = np.nan
rewards_of_groups = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, None]), max_size=5), min_size=1, max_size=5
)


def run(name, rewards, **columns):
    options = {key: columns.pop(key) for key in list(columns) if not isinstance(columns[key], list)}
    arrays = {key: np.array(values, dtype=float) for key, values in columns.items()}
    shape = next(one.shape for one in arrays.values() if one.ndim == 2)
    arrays.setdefault("mask", np.ones(shape))
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards), TokenColumns(**arrays))


# --- rl_zvp ------------------------------------------------------------------------------------


def test_rl_zvp_by_hand():
    entropy = [[0.2, 1.0, 9.0]] * 2
    mask = [[1, 1, 0], [1, 0, 0]]
    got = run("rl_zvp", [[1, 1]], entropy=entropy, mask=mask, alpha=0.1)
    assert got.tolist() == [pytest.approx([0.02, 0.1, 0]), pytest.approx([0.02, 0, 0])]
    got = run("rl_zvp", [[0, 0]], entropy=entropy, mask=mask, alpha=0.1)
    assert got.tolist() == [pytest.approx([-0.08, 0, 0]), pytest.approx([0, 0, 0])]
    got = run("rl_zvp", [[1, 0]], entropy=entropy, mask=mask, eps=0)
    assert got[0] == pytest.approx([sqrt(0.5), sqrt(0.5), 0])
    assert (run("rl_zvp", [[0.5, 0.5]], entropy=entropy) == 0).all()


@quick
@given(st.integers(0, 99), st.sampled_from([0.0, 1.0]))
def test_rl_zvp_per_sample_is_its_mean_over_tokens(seed, level):
    groups, tokens = batch([[level] * 4], seed)
    tokens = replace(tokens, mask=np.maximum(tokens.mask, np.eye(1, 9)))
    shown = np.where(tokens.mask > 0, tokens.entropy, nan)
    by_sample = bt.advantages(
        groups.rewards,
        groups.group_of,
        method="rl_zvp",
        columns={"entropy": np.nanmean(shown, 1), "entropy_max": np.nanmax(shown, 1)},
    )
    by_token = bt.estimator("rl_zvp")(groups, tokens)
    assert by_token.sum(axis=1) / tokens.mask.sum(axis=1) == pytest.approx(by_sample)


# --- grpo_vps ----------------------------------------------------------------------------------


def test_grpo_vps_by_hand():
    got = run(
        "grpo_vps",
        [[1, 0], [0, 0]],
        belief=[
            [nan, 0.5, nan, 0.9],
            [0.1, nan, nan, nan],
            [nan, nan, nan, nan],
            [0.5, 0.25, nan, 1.0],
        ],
        prior=[0.2, 0.2, 0.3, 0.5],
        alpha=2.0,
    )
    assert got[0] == pytest.approx([0.5 + 0.6, 0.5 + 0.6, 0.5 + 0.8, 0.5 + 0.8])
    assert got[1] == pytest.approx([-0.5 - 0.2, -0.5, -0.5, -0.5])
    assert got[2].tolist() == [0, 0, 0, 0]
    assert got[3] == pytest.approx([0, -0.5, 1.5, 1.5])


def test_grpo_vps_takes_probabilities():
    for name, value in (("belief", -0.1), ("belief", 1.1), ("prior", -2.0), ("prior", nan)):
        columns = {"belief": [[0.5]], "prior": [0.5]}
        columns[name] = [[value]] if name == "belief" else [value]
        with pytest.raises(ValueError, match=f"{name} is no probability"):
            run("grpo_vps", [[1]], **columns)


def test_grpo_vps_of_entropy_needs_a_belief_at_every_end():
    entropy = [[0.1, 2, 0.1, 3, 0.1, 1]]
    segments = segments_by_entropy(np.array(entropy), np.ones((1, 6)), 50, 1)
    assert segments.tolist() == [[0, 0, 0, 1, 1, 2]]
    belief = np.where(segment_ends(segments), [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]], nan)
    options = {"entropy": entropy, "prior": [0.0], "percentile": 50, "per_segment": 1, "alpha": 1}
    got = run("grpo_vps", [[1]], belief=belief.tolist(), **options)
    assert got[0] == pytest.approx([0.3, 0.3, 0.3, 0.2, 0.2, 0.1])
    belief[0, 0] = 0.9  # inside a segment: no matter
    assert run("grpo_vps", [[1]], belief=belief.tolist(), **options) == pytest.approx(got)
    belief[0, 4] = nan
    with pytest.raises(ValueError, match="belief is unknown at 1 of 3 segment ends"):
        run("grpo_vps", [[1]], belief=belief.tolist(), **options)


@quick
@given(rewards_of_groups, st.integers(0, 99))
def test_grpo_vps_in_loops(rewards, seed):
    groups, tokens = batch(rewards, seed)
    draws = np.random.default_rng(seed)
    belief = np.where(draws.random(tokens.belief.shape) < 0.4, tokens.belief, nan)
    got = bt.estimator("grpo_vps")(groups, replace(tokens, entropy=None, belief=belief))
    outcome = bt.advantages(groups.rewards, groups.group_of, method="dr_grpo")
    for i in range(groups.n_samples):
        places = np.flatnonzero(tokens.mask[i])
        gain, start, waiting = np.zeros(len(places)), tokens.prior[i], []
        for nth, place in enumerate(places):
            waiting.append(nth)
            if not np.isnan(belief[i, place]):
                gain[waiting] = belief[i, place] - start
                start, waiting = belief[i, place], []
        expected = 0 if np.isnan(groups.rewards[i]) else outcome[i] + 1.2 * gain
        assert got[i, places] == pytest.approx(expected)


# --- ep_grpo -----------------------------------------------------------------------------------

HALVES = {
    "entropy": [[1, 3], [3, 1]],
    "logp": [[-1.0, -1.0], [-1.0, -1.0]],
    "ref_logp": [[-1.2, -1.4], [-1.0, -1.2]],
}
# one bucket: s is 0.2, 0.4, 0, 0.2 with mean 0.2 and deviation 0.2 / sqrt(2)
PROGRESS = np.array([[0, sqrt(2)], [-sqrt(2), 0]])


def test_ep_grpo_by_hand():
    up, down = 1 / (1 + exp(-1)), 1 / (1 + exp(1))
    got = run("ep_grpo", [[1, 0]], **HALVES, buckets=1, eps=0)
    outcome = sqrt(0.5) * np.array([[down, up], [-up, -down]])
    assert got == pytest.approx(outcome + np.array([[1], [-1]]) * PROGRESS)


@pytest.mark.parametrize(
    ("rewards", "options", "sign"),
    [
        ([1, 1], {}, 1),
        ([0, 0], {}, -1),
        ([0.5, 0.5], {}, 0),
        ([0.5, 0.5], {"theta": 0.2}, 1),
        ([0.5, 0.5], {"bounds": (0, 4)}, -1),
    ],
)
def test_ep_grpo_gives_tied_groups_a_direction(rewards, options, sign):
    got = run("ep_grpo", [rewards], **HALVES, buckets=1, eps=0, **options)
    assert got == pytest.approx(sign * PROGRESS)


def test_ep_grpo_learns_the_levels_of_the_reward():
    groups, tokens = batch([[-1, -1], [0, 0], [1, 1]])
    got = bt.estimator("ep_grpo")(groups, replace(tokens, mask=np.ones((6, 9))))
    assert (got[2:4] == 0).all()  # halfway between -1 and 1
    assert got[:2].any()
    assert got[4:].any()


def test_ep_grpo_gives_a_reward_at_the_mean_no_direction():
    """0.7 is the mean of these in exact arithmetic; a rounding error has no sign."""
    rewards = [0.6, 0.7, 0.8]
    assert np.mean(rewards) != 0.7
    groups, tokens = batch([rewards])
    tokens = replace(tokens, mask=np.ones((3, 9)))
    got = bt.estimator("ep_grpo")(groups, tokens)
    assert np.abs(got[1]).max() < 1e-6
    assert np.abs(got[[0, 2]]).max() > 0.5


def test_ep_grpo_weighs_its_parts():
    groups, tokens = batch()
    outcome = bt.advantages(groups.rewards, groups.group_of, method="grpo")[:, None]
    flat = bt.estimator("ep_grpo", gamma=0, weight=0)(groups, tokens)
    assert flat == pytest.approx(np.where(tokens.mask > 0, outcome / 2, 0))
    hard = bt.estimator("ep_grpo", gamma=1e9, weight=0)(groups, tokens)
    share = hard[np.abs(flat) > 0] / flat[np.abs(flat) > 0]
    assert set(np.round(share, 6)) <= {0, 1, 2}
    once = bt.estimator("ep_grpo", gamma=0)(groups, tokens)
    twice = bt.estimator("ep_grpo", gamma=0, weight=2)(groups, tokens)
    assert twice - once == pytest.approx(once - flat)


def test_ep_grpo_a_factor_on_the_signal_cancels():
    groups, tokens = batch()
    louder = replace(tokens, logp=100 * tokens.logp, ref_logp=100 * tokens.ref_logp)
    est = bt.estimator("ep_grpo", eps=1e-9)
    assert est(groups, louder) == pytest.approx(est(groups, tokens), abs=1e-6)


def test_ep_grpo_noise_of_a_fresh_policy_stays_small():
    """Before the first update policy and reference differ by rounding alone."""
    groups, tokens = batch([[0, 0, 0, 0]])
    noise = np.random.default_rng(0).normal(0, 1e-8, tokens.logp.shape)
    got = bt.estimator("ep_grpo")(groups, replace(tokens, ref_logp=tokens.logp + noise))
    assert 0 < np.abs(got).max() < 1e-3


def loops(groups, tokens, buckets, eps):
    """EP-GRPO token by token; levels 0 and 1."""
    result = np.zeros(tokens.mask.shape)
    for g in range(len(groups)):
        rows = [
            i
            for i in range(groups.offsets[g], groups.offsets[g + 1])
            if not np.isnan(groups.rewards[i])
        ]
        reward = groups.rewards[rows]
        cells = [(i, t) for i in rows for t in np.flatnonzero(tokens.mask[i])]
        if not cells:
            continue
        entropy = np.array([tokens.entropy[cell] for cell in cells])
        gate = 1 / (1 + np.exp(-(entropy - entropy.mean()) / (entropy.std() + eps)))
        mixed = len(reward) > 1 and np.ptp(reward) > 0
        bucket, signal = [], []
        for i, t in cells:
            own = [tokens.entropy[i, u] for u in np.flatnonzero(tokens.mask[i])]
            until = [tokens.entropy[i, u] for u in np.flatnonzero(tokens.mask[i]) if u <= t]
            bucket.append(int(np.ceil(buckets * sum(until) / sum(own) - 1e-9)))
            signal.append(tokens.logp[i, t] - tokens.ref_logp[i, t])
        for nth, (i, t) in enumerate(cells):
            same = [s for s, b in zip(signal, bucket, strict=True) if b == bucket[nth]]
            progress = (signal[nth] - np.mean(same)) / (np.std(same) + eps)
            outcome = 0.0
            if mixed:
                outcome = (groups.rewards[i] - reward.mean()) / (reward.std(ddof=1) + eps)
            by = outcome if mixed else groups.rewards[i] - 0.5
            sign = np.sign(by) if abs(by) > 1e-6 else 0
            result[i, t] = gate[nth] * outcome + sign * progress
    return result


@quick
@given(rewards_of_groups, st.integers(0, 99), st.sampled_from([1, 3, 10]))
def test_ep_grpo_in_loops(rewards, seed, buckets):
    groups, tokens = batch(rewards, seed)
    got = bt.estimator("ep_grpo", buckets=buckets, eps=1e-3)(groups, tokens)
    assert got == pytest.approx(loops(groups, tokens, buckets, 1e-3), abs=1e-9)


def test_ep_grpo_progresses_by_tokens_where_there_is_no_entropy():
    signal = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.9, 0.2, 0.4]])
    zero = np.zeros((2, 4)).tolist()
    got = run(
        "ep_grpo", [[1, 1]], entropy=zero, logp=signal.tolist(), ref_logp=zero, buckets=2, eps=0
    )
    for half in (slice(0, 2), slice(2, 4)):
        part = signal[:, half]
        assert got[:, half] == pytest.approx((part - part.mean()) / part.std())


def test_options_are_checked():
    for name, wrong in [
        ("ep_grpo", {"buckets": 0}),
        ("ep_grpo", {"gamma": -1}),
        ("ep_grpo", {"theta": "half"}),
        ("grpo_vps", {"percentile": 101}),
        ("grpo_vps", {"per_segment": 0}),
        ("rl_zvp", {"alpha": -1}),
    ]:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            bt.estimator(name, **wrong)

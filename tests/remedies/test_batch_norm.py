"""Batch-wide normalisation against TRL's and verl's own formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies.moments import Moments

batches = st.builds(
    lambda n, size, seed: np.random.default_rng(seed).choice([0, 1, 0.5, -1], size=(n, size)),
    st.integers(1, 6),
    st.integers(2, 8),
    st.integers(0, 10**6),
)


def run(name, rewards, columns=None, **options):
    return bt.estimator(name, **options)(bt.Groups.from_dense(rewards, **(columns or {})))


def is_tied(rewards):
    return np.repeat(rewards.max(axis=1) == rewards.min(axis=1), rewards.shape[1])


@given(batches)
def test_global_norm_within(rewards):
    divisor = np.sqrt(rewards.var(axis=1, ddof=1).mean()) + 1e-4
    expected = (rewards - rewards.mean(axis=1, keepdims=True)) / divisor
    assert run("global_norm", rewards) == pytest.approx(expected.reshape(-1))


@pytest.mark.trl
@settings(deadline=None)
@given(batches)
def test_global_norm_batch_is_trl(rewards):
    """scale_rewards="batch" of GRPOTrainer, with TRL's own nanstd."""
    torch = pytest.importorskip("torch")
    nanstd = pytest.importorskip("trl.trainer.utils").nanstd
    flat = torch.tensor(rewards).view(-1)
    mean = torch.nanmean(torch.tensor(rewards), dim=1).repeat_interleave(rewards.shape[1])
    expected = (flat - mean) / (nanstd(flat) + 1e-4)
    got = run("global_norm", rewards, scale="batch")
    # nanstd corrects its count in float32
    assert got == pytest.approx(expected.numpy(), abs=1e-6)


@pytest.mark.trl
@settings(deadline=None)
@given(batches, batches)
def test_gdpo_is_trl(first, second):
    """normalize_then_sum of GRPOTrainer, with two weighted components."""
    torch = pytest.importorskip("torch")
    nanstd = pytest.importorskip("trl.trainer.utils").nanstd
    n, size = min(len(first), len(second)), min(first.shape[1], second.shape[1])
    parts = np.stack([first[:n, :size], second[:n, :size]], axis=-1)
    weights = torch.tensor([1.0, 0.5], dtype=torch.float64)
    grouped = torch.tensor(parts)
    mean = torch.nanmean(grouped, dim=1, keepdim=True)
    scores = ((grouped - mean) / (nanstd(grouped, dim=1, keepdim=True) + 1e-4)).view(-1, 2)
    rewards = (scores * weights).nansum(dim=1)
    expected = (rewards - rewards.nanmean()) / (nanstd(rewards) + 1e-4)
    columns = {"reward/a": parts[..., 0], "reward/b": parts[..., 1]}
    got = run("gdpo", parts @ weights.numpy(), columns, weights={"b": 0.5})
    # nanstd corrects its count in float32
    assert got == pytest.approx(expected.numpy(), abs=1e-6)


def test_gdpo_gives_a_group_whose_total_is_tied_the_signal_of_its_components():
    columns = {"reward/a": [[1, 0, 1, 0]], "reward/b": [[0, 1, 0, 1]]}
    total = np.ones((1, 4))
    assert (run("gdpo", total, columns) == 0).all()  # equal weights cancel
    assert run("gdpo", total, columns, weights={"a": 2.0})[0] > 0
    assert run("gdpo", total, columns, components=["a"]).tolist()[:2] == pytest.approx(
        [0.866, -0.866], abs=1e-3
    )
    # a component that is tied in float32 adds nothing
    twins = {"reward/a": np.full((1, 8), 0.7, dtype=np.float32)}
    assert (run("gdpo", np.full((1, 8), 0.7), twins) == 0).all()


def test_gdpo_without_components_says_so():
    est = bt.estimator("gdpo", components=["format"])
    assert est(bt.Groups.from_nested([[1, 0]]))[0] > 0
    assert est.reading["missing"] == ["reward/format"]


def whiten(values, weights):
    """verl's masked_whiten, every sample standing for `weights` tokens."""
    mean = (values * weights).sum() / weights.sum()
    variance = ((values - mean) ** 2 * weights).sum() / weights.sum()
    variance *= weights.sum() / (weights.sum() - 1)
    return (values - mean) / np.sqrt(variance + 1e-8)


@given(batches, st.booleans())
def test_reinforce_pp_is_verl(rewards, by_token):
    draws = np.random.default_rng(0)
    length = draws.integers(1, 50, rewards.shape) if by_token else np.ones(rewards.shape)
    columns = {"length": length} if by_token else {}
    per = "token" if by_token else "sample"
    flat, weights = rewards.reshape(-1), length.reshape(-1)
    got = run("reinforce_pp", rewards, columns, per=per)
    if np.ptp(flat) == 0:
        assert (got == 0).all()
    else:
        assert got == pytest.approx(whiten(flat, weights), abs=1e-6)
    centred = (rewards - rewards.mean(axis=1, keepdims=True)).reshape(-1)
    got = run("reinforce_pp_baseline", rewards, columns, per=per)
    mixed = ~is_tied(rewards)
    assert (got[~mixed] == 0).all()
    if mixed.any():
        assert got[mixed] == pytest.approx(whiten(centred, weights)[mixed], abs=1e-6)


def test_token_weights_want_the_length():
    est = bt.estimator("reinforce_pp", per="token")
    est(bt.Groups.from_nested([[1, 0]]))
    assert est.reading["missing"] == ["length"]


@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=5), max_size=5))
def test_moments_add_up(parts):
    whole = np.array([value for part in parts for value in part])
    total = sum((Moments.of(np.array(part, dtype=float)) for part in parts), Moments(0, 0.0, 0.0))
    assert total.count == len(whole)
    if len(whole):
        assert total.mean == pytest.approx(whole.mean(), abs=1e-9)
        assert total.std(0) == pytest.approx(whole.std(), abs=1e-6)

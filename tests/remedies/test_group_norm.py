"""grpo, dr_grpo and rloo against hand-worked groups and the trainers' own formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt

rng = np.random.default_rng(7)


def run(name, rewards, **options):
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards))


def test_grpo_by_hand():
    # mean 1/4, deviation 1/2 with ddof 1
    expected = np.array([0.75, -0.25, -0.25, -0.25]) / 0.5
    assert run("grpo", [[1, 0, 0, 0]], eps=0) == pytest.approx(expected)
    expected = np.array([0.75, -0.25, -0.25, -0.25]) / np.sqrt(3 / 16)
    assert run("grpo", [[1, 0, 0, 0]], eps=0, ddof=0) == pytest.approx(expected)


def test_dr_grpo_and_rloo_by_hand():
    assert run("dr_grpo", [[3, 0, 0]]).tolist() == [2, -1, -1]
    assert run("rloo", [[3, 0, 0]]).tolist() == [3, -1.5, -1.5]


def test_unscorable_samples_are_left_out():
    assert run("rloo", [[3, None, 0, np.nan, 0]]).tolist() == [3, 0, -1.5, 0, -1.5]
    assert run("rloo", [[3, np.inf], [None, None], [1]]).tolist() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_sum_of_squared_advantages(size):
    """Σ A² = G σ² / (σ + eps)² with the population deviation."""
    rewards = rng.normal(size=(20, size))
    eps = 0.3
    got = run("grpo", rewards.tolist(), eps=eps, ddof=0).reshape(20, size)
    sigma = rewards.std(axis=1)
    assert (got**2).sum(axis=1) == pytest.approx(size * sigma**2 / (sigma + eps) ** 2)


def test_a_tiny_range_above_the_tolerance_stays_finite_without_eps():
    tolerance = bt.Tolerance(atol=0, rtol=0)
    got = run("grpo", [[1e-200, 0], [1e-320, 0]], eps=0, tolerance=tolerance)
    assert np.isfinite(got).all()


@pytest.mark.parametrize("ddof", [0, 1])
def test_bad_options(ddof):
    with pytest.raises(bt.remedies.registry.UsageError, match="eps"):
        bt.estimator("grpo", eps=-1, ddof=ddof)
    with pytest.raises(ValueError, match="ddof must be one of 0, 1; got 2"):
        bt.estimator("grpo", ddof=2)


ragged = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 0.1, 0.7, 2.1, -1.0, None]), max_size=9), max_size=7
)


@settings(deadline=None)
@given(ragged)
def test_verl(rewards):
    """verl's grpo: per id torch.mean and torch.std of the scores, eps 1e-6; (score, 0, 1) alone."""
    torch = pytest.importorskip("torch")
    got = run("grpo", rewards, eps=1e-6)
    expected = []
    for row in rewards:
        scores = torch.tensor([r for r in row if r is not None], dtype=torch.float64)
        # a tied or unscorable group is exactly 0 here; verl leaves rounding noise there
        quiet = len(scores) < 2 or float(scores.max() - scores.min()) == 0
        for r in row:
            lost = quiet or r is None
            expected.append(0.0 if lost else float((r - scores.mean()) / (scores.std() + 1e-6)))
    assert got == pytest.approx(expected, abs=1e-9)


@pytest.mark.trl
@settings(deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.integers(0, 10**6))
def test_trl(size, n, seed):
    """The lines of GRPOTrainer with scale_rewards="group", with TRL's own nanstd."""
    torch = pytest.importorskip("torch")
    nanstd = pytest.importorskip("trl.trainer.utils").nanstd
    draws = np.random.default_rng(seed)
    rewards = torch.tensor(
        draws.choice([0, 1, 0.5, -1, np.nan], size=n * size), dtype=torch.float32
    )
    rows = rewards.view(-1, size)
    mean = torch.nanmean(rows, dim=1).repeat_interleave(size)
    std = nanstd(rows, dim=1).repeat_interleave(size)
    expected = torch.nan_to_num((rewards - mean) / (std + 1e-4), nan=0.0)
    got = bt.estimator("grpo")(bt.Groups.from_dense(rows))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("size", [2, 4, 8, 64])
def test_the_largest_possible_advantage(size):
    """(G - 1) / sqrt(G) with ddof 1, sqrt(G - 1) with ddof 0; a lone success attains it."""
    lone = [1.0] + [0.0] * (size - 1)
    for ddof, bound in ((1, (size - 1) / np.sqrt(size)), (0, np.sqrt(size - 1))):
        assert run("grpo", [lone], eps=0, ddof=ddof)[0] == pytest.approx(bound)
        got = run("grpo", rng.standard_cauchy((50, size)).tolist(), eps=0, ddof=ddof)
        assert np.abs(got).max() <= bound + 1e-9

"""When a group is tied, and the rate that follows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from buttress import Groups, Tolerance, collapse_rate
from buttress.measures import CollapseCounts, GroupSummary, collapse_rate_by_reward, signal
from tests.helpers import require
from tests.measures.batches import batches, is_tied, scorable

nan, inf = math.nan, math.inf


def tied(rewards, **tolerance):
    groups = Groups.from_nested([rewards])
    return bool(GroupSummary.of(groups, Tolerance(**tolerance)).tied[0])


@pytest.mark.parametrize(
    "rewards",
    [
        [0.1] * 16,
        [0.7] * 8,
        [0.1 + 0.2, 0.3],
        [1, 1, 1, 0.99999994],
        [-1, -0.99999994],
        [0, 1e-7, -1e-7],
        [0, 1e-6],  # on the line
        [1e12, 1e12 + 1e5],
        [-1e12, -1e12 - 1e5],
        [1e300, 1e300 * (1 + 1e-9)],
        [5, nan, 5, None, inf],
        [5, -inf, 5],
        np.array([0.7] * 8, dtype=np.float32).tolist(),
    ],
)
def test_tied(rewards):
    assert tied(rewards)


@pytest.mark.parametrize(
    "rewards",
    [
        [0, 1.1e-6],
        [1, 1 - 2.1e-6],
        [1e12, 1e12 + 1e7],
        [1e300, -1e300],
        [1.7e308, -1.7e308],  # their distance overflows
        [5e-6, -5e-6],
        [7],  # nothing to compare with
        [7, nan, inf, None],
        [],
    ],
)
def test_not_tied(rewards):
    assert not tied(rewards)


def test_the_tolerance_is_the_sum_of_both_parts():
    assert tied([100, 101], atol=0, rtol=0.01)
    assert not tied([100, 101.1], atol=0, rtol=0.01)
    assert tied([100, 101.5], atol=0.5, rtol=0.01)
    assert tied([0, 5e-324], atol=0, rtol=0) is False
    assert tied([3, 3], atol=0, rtol=0)


@pytest.mark.parametrize("value", [0.1, 0.7, 2.1, 1 / 3])
@pytest.mark.parametrize("size", [2, 3, 8, 16, 64])
def test_one_value_is_tied_in_every_precision(value, size):
    torch = require("torch")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        rewards = torch.full((1, size), value, dtype=dtype)
        assert collapse_rate(Groups.from_dense(rewards)) == 1.0
    for dtype in (np.float16, np.float32, np.longdouble):
        rewards = np.full((1, size), value, dtype=dtype)
        assert collapse_rate(Groups.from_dense(rewards)) == 1.0


@pytest.mark.parametrize(
    ("rewards", "rate"),
    [
        ([[1, 1], [0, 1]], 0.5),
        ([[1, 1, None], [0, 1], [None, None], [3], []], 0.5),
        ([[-7] * 4, [3] * 4], 1.0),
        ([[2, 0, 2], [4, 4, 4], [1, 5], [0, 0]], 0.5),
    ],
)
def test_rate(rewards, rate):
    assert collapse_rate(Groups.from_nested(rewards)) == rate


@pytest.mark.parametrize("rewards", [[], [[]], [[1]], [[None, None]], [[inf, 1, nan]], [[1], [0]]])
def test_rate_without_an_eligible_group_is_unknown(rewards):
    groups = Groups.from_nested(rewards)
    assert math.isnan(collapse_rate(groups))
    assert math.isnan(CollapseCounts.of(groups).rate)
    assert all(map(math.isnan, CollapseCounts.of(groups).interval()))


def test_a_summary_follows_its_tolerance_and_its_column():
    groups = Groups.from_nested([[0, 0.5]], correct=[[1, 1]])
    loose = Tolerance(atol=0.5)
    assert collapse_rate(groups) == 0.0
    assert collapse_rate(groups, loose) == 1.0
    assert collapse_rate(groups) == 0.0
    assert collapse_rate_by_reward(groups) == {"reward": 0.0, "correct": 1.0}
    assert collapse_rate(groups.with_rewards([1, 1])) == 1.0


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30])
def test_order_statistics_at_every_group_size(width):
    rewards = np.random.default_rng(width).normal(size=(50, width))
    summary = GroupSummary.of(Groups.from_dense(rewards))
    assert summary.low.tolist() == rewards.min(axis=1).tolist()
    assert summary.high.tolist() == rewards.max(axis=1).tolist()
    summary.low[0] = 9  # a summary never shares memory with the rewards
    assert 9 not in rewards


@given(batches())
@settings(max_examples=200, deadline=None)
def test_rates_and_waste_are_what_loops_count(groups):
    for name, rate in collapse_rate_by_reward(groups).items():
        values = scorable(groups, name)
        eligible = [group for group in values if len(group) >= 2]
        expected = sum(map(is_tied, eligible)) / len(eligible) if eligible else nan
        assert rate == pytest.approx(expected, nan_ok=True)
    values = scorable(groups)
    counts = signal(groups)
    assert counts.wasted == sum(len(group) for group in values if is_tied(group))
    assert counts.unscorable == groups.n_samples - sum(map(len, values))
    assert (
        counts.useful
        + counts.wasted
        + counts.unscorable
        + sum(len(group) for group in values if len(group) == 1)
        == groups.n_samples
    )


def test_tokens_are_unknown_without_lengths_and_never_zero():
    silent = signal(Groups.from_nested([[1, 1]]))
    assert silent.tokens_wasted is None
    blank = signal(Groups.from_nested([[1, 1]], length=[[None, inf]]))
    assert blank.tokens_wasted is None
    partly = signal(Groups.from_nested([[1, 1], [0, 1]], length=[[7, None], [5, 5]]))
    assert (partly.tokens_wasted, partly.tokens, partly.counted) == (7, 17, 3)
    none_tied = signal(Groups.from_nested([[0, 1]], length=[[3, 4]]))
    assert none_tied.tokens_wasted == 0


def test_unscorable_rollouts_of_a_tied_group():
    counts = signal(Groups.from_nested([[None, -1, -1, None]], length=[[9, 1, 2, 9]]))
    assert (counts.unscorable, counts.wasted, counts.useful) == (2, 2, 0)
    assert counts.tokens_wasted == 21
    assert counts.effective_batch == 0.0


def test_effective_batch():
    assert math.isnan(signal(Groups.from_nested([])).effective_batch)
    assert signal(Groups.from_nested([[0, 1, None], [1, 1]])).effective_batch == 0.4

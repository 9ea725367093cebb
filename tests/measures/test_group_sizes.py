"""Other group sizes: case A12, the arithmetic of cost and budget, and what makes a size best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.measures.group_sizes import GroupSizes


def counts(rate, tries=16, prompts=800, seed=0):
    wins = np.random.default_rng(seed).binomial(tries, np.resize(rate, prompts))
    return np.column_stack([tries - wins, wins])


def acr(plan):
    return {row.size: row.acr.value for row in plan.rows}


@pytest.mark.parametrize("tries", [4, 8, 16])
def test_a12(tries):
    alike = GroupSizes.of(counts([0.18], tries), budget=512)
    half = GroupSizes.of(counts([0.0, 0.364], tries), budget=512)
    for size, one, two in ((2, 0.70, 0.77), (4, 0.45, 0.59), (8, 0.20, 0.51), (16, 0.04, 0.50)):
        assert acr(alike)[size] == pytest.approx(one, abs=0.035)
        assert acr(half)[size] == pytest.approx(two, abs=0.035)
    assert half.floor.low < 0.5 < half.floor.high
    assert alike.floor.value < 0.03
    assert (alike.best, half.best) == (16, 8)


def test_where_a_number_comes_from():
    rows = GroupSizes.of(counts([0.3], tries=8), budget=64, sizes=[2, 8, 16]).rows
    assert [row.method for row in rows] == ["counts", "counts", "model"]
    levels = GroupSizes.of(np.tile([3, 3, 2], (50, 1)), budget=64, sizes=[2, 8, 16])
    assert [row.method for row in levels.rows] == ["counts", "counts", None]
    assert np.isnan(levels.rows[2].acr.value)
    assert np.isnan(levels.floor.value)


def test_cost_and_budget_by_hand():
    # four prompts of 4 rollouts: two mixed half and half, one always, one never
    plan = GroupSizes.of(np.array([[2, 2], [2, 2], [4, 0], [0, 4]]), budget=18, sizes=[2, 4])
    two, four = plan.rows
    assert two.acr.value == pytest.approx((1 / 3 + 1 / 3 + 1 + 1) / 4)
    assert four.acr.value == pytest.approx(0.5)
    assert two.cost[0] == pytest.approx(2 / (1 - 2 / 3))
    assert (two.prompts, four.prompts) == (9, 4)
    assert four.mixed == pytest.approx(2)
    assert four.effective == pytest.approx(8)


def test_a_group_that_does_not_fit_is_not_the_best():
    plan = GroupSizes.of(counts([0.03]), budget=8)
    assert plan.best == 8
    assert GroupSizes.of(counts([0.3]), budget=1).best is None
    assert GroupSizes.of(np.array([[8, 0]] * 9), budget=64, sizes=[2, 4, 8]).best is None


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(2, 200),
)
def test_any_counts_make_a_plan(prompts, budget):
    plan = GroupSizes.of(np.array(prompts), budget=budget)
    for row in plan.rows:
        known = row.acr.value
        if np.isfinite(known):
            assert -1e-9 <= row.acr.low <= known + 1e-6
            assert known - 1e-6 <= row.acr.high <= 1 + 1e-9
            assert row.effective <= budget + 1e-6
            assert row.cost[0] >= row.size - 1e-6


@pytest.mark.parametrize(("sizes", "budget"), [([1], 8), ([8], 0), ([], 8), ([99999], 8)])
def test_bad_sizes_and_budgets_are_refused(sizes, budget):
    with pytest.raises(UsageError, match=r"between 2|above 0"):
        GroupSizes.of(np.array([[1, 1]]), budget=budget, sizes=sizes)

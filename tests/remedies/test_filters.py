"""filter_drop and maxnorm_ac: what is left out, and what becomes of the rest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import buttress as bt


def run(name, rewards, **options):
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards))


def test_filter_drop_is_the_mean_over_the_kept():
    rewards = [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0], [1, 0, 0]]
    kept = run("grpo", [rewards[0], rewards[3]])
    got = run("filter_drop", rewards)
    assert got[[0, 1, 2, 3, 10, 11, 12]] == pytest.approx(kept * 13 / 7)
    assert (got[4:10] == 0).all()
    assert np.abs(got).sum() / 13 == pytest.approx(np.abs(kept).sum() / 7)
    same = run("filter_drop", rewards, denominator="all")
    assert same == pytest.approx(run("grpo", rewards))


def test_filter_drop_with_nothing_left():
    assert run("filter_drop", [[1, 1], [0, 0]]).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
@pytest.mark.parametrize("right", range(1, 8))
def test_maxnorm_by_hand(right, baseline):
    got = run("maxnorm_ac", [[1.0] * right + [0.0] * (8 - right)], baseline=baseline)
    p = right / 8
    assert got[0] == pytest.approx((1 - p) / max(p, 1 - p))
    assert got[-1] == pytest.approx(-p / max(p, 1 - p))


def test_maxnorm_leaves_jitter_out_and_keeps_small_gaps():
    assert run("maxnorm_ac", [[0.5, 0.509, 0.5, 0.504]]).tolist() == [0, 0, 0, 0]
    assert run("maxnorm_ac", [[0.5, 0.51, 0.5, 0.5]], resolution=1e-2)[1] > 0
    # 0.29 is the 29th edge, although 0.29 / 0.01 is 28.99...
    got = run("maxnorm_ac", [[0.0, 0.29, 0.295]])
    assert got[1] == got[2]
    # within floor the scale stays that of the floor
    assert np.abs(run("maxnorm_ac", [[0, 0.05]], floor=0.5)).max() == pytest.approx(0.05)


@given(st.lists(st.lists(st.floats(-2, 2), min_size=2, max_size=8), max_size=5))
def test_maxnorm_is_bounded_and_keeps_the_order(rewards):
    got = run("maxnorm_ac", rewards)
    assert (np.abs(got) <= 1 + 1e-12).all()
    start = 0
    for row in rewards:
        part = got[start : start + len(row)]
        order = np.argsort(row, kind="stable")
        assert (np.diff(part[order]) >= -1e-9).all()
        start += len(row)

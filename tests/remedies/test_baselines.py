"""ngrpo, qae, krpo and sign: another baseline than the group mean."""

import numpy as np
import pytest

import buttress as bt


def run(name, rewards, **options):
    return bt.estimator(name, **options)(bt.Groups.from_nested(rewards))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_ngrpo_closed_forms(size):
    assert run("ngrpo", [[0] * size], eps=0) == pytest.approx(np.full(size, -1 / np.sqrt(size + 1)))
    assert run("ngrpo", [[0] * size], eps=0, ddof=0) == pytest.approx(
        np.full(size, -1 / np.sqrt(size))
    )
    assert (run("ngrpo", [[1] * size]) == 0).all()


def test_ngrpo_shifts_mixed_groups_too():
    values = np.array([1, 0, 0, 1.0, 1.0])  # the last one is virtual
    expected = (values[:4] - values.mean()) / values.std(ddof=1)
    assert run("ngrpo", [[1, 0, 0, 1]], eps=0) == pytest.approx(expected)


def test_ngrpo_takes_the_highest_level_for_right():
    est = bt.estimator("ngrpo")
    assert (est(bt.Groups.from_nested([[2, 2], [0, 2]]))[:2] == 0).all()
    assert (est(bt.Groups.from_nested([[1, 1]])) < 0).all()


@pytest.mark.parametrize("right", range(1, 10))
def test_qae_rewards_the_rare_side_only(right):
    got = run("qae", [[1] * right + [0] * (10 - right)])
    if right <= 6:  # p <= 1 - K
        assert (got[:right] > 0).all()
        assert (got[right:] == 0).all()
    else:
        assert (got[:right] == 0).all()
        assert (got[right:] < 0).all()


@pytest.mark.parametrize("quantile", [0.01, 0.25, 0.4, 0.6, 1.0])
def test_qae_against_numpy(quantile):
    rows = [np.random.default_rng(n).normal(size=n) for n in (2, 3, 5, 8, 8)]
    got = run("qae", [row.tolist() for row in rows], quantile=quantile, eps=0)
    expected = [
        (row - np.quantile(row, quantile, method="inverted_cdf")) / row.std(ddof=1) for row in rows
    ]
    assert got == pytest.approx(np.concatenate(expected))


def kalman(rewards, q=1e-5, r=1e-2, p=1.0):
    x, out = 0.0, []
    for reward in rewards:
        p += q
        gain = p / (p + r)
        x += gain * (reward - x)
        p *= 1 - gain
        out.append((reward - x) / (np.sqrt(p) + 1e-8))
    return out


def test_krpo_against_a_plain_filter():
    rows = [[1, 0, 1, 1], [0.3, -2, 5]]
    expected = np.concatenate([kalman(row) for row in rows])
    assert run("krpo", rows) == pytest.approx(expected)
    # an unscorable sample is passed over
    assert run("krpo", [[1, None, 0]])[[0, 2]] == pytest.approx(kalman([1, 0]))


def test_krpo_on_tied_groups():
    assert (run("krpo", [[0] * 8]) == 0).all()
    right = run("krpo", [[1] * 8])
    assert right[[0, 7]] == pytest.approx([0.0995, 0.035], abs=5e-4)
    assert (np.diff(right) < 0).all()


def test_sign():
    assert run("sign", [[1, 0], [1, 1], [0, 0]]).tolist() == [1, -1, 1, 1, -1, -1]
    assert run("sign", [[-1, 1]]).tolist() == [-1, 1]
    assert run("sign", [[0.25]]).tolist() == [-0.5]
    assert run("sign", [[5, 0]], bounds=(0, 10)).tolist() == [0, -1]


def test_levels_are_remembered():
    est = bt.estimator("sign")
    assert est(bt.Groups.from_nested([[0, 1]])).tolist() == [-1, 1]
    assert est(bt.Groups.from_nested([[-1, 1]])).tolist() == [-1, 1]
    assert est(bt.Groups.from_nested([[0, 1]])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="bounds"):
        bt.estimator("sign", bounds=(1, 1))

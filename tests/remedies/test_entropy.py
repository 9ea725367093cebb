"""edge_grpo and the sequence form of rl_zvp."""

import numpy as np
import pytest

import buttress as bt


def run(name, rewards, columns, **options):
    est = bt.estimator(name, **options)
    return est(bt.Groups.from_nested(rewards, **columns)), est


def test_edge_grpo_by_hand():
    rewards, entropy = [[1, 0, 1], [1, 0]], [[0.5, 1.0, 1.5], [1.0, 1.0]]
    got, _ = run("edge_grpo", rewards, {"entropy": entropy})
    plain = bt.estimator("grpo")(bt.Groups.from_nested(rewards))
    assert got == pytest.approx(plain / (np.concatenate(entropy) / 1.0))
    # a collapsed entropy does not make a collapsed number
    got, _ = run("edge_grpo", [[1, 0]], {"entropy": [[0.0, 2.0]]})
    assert got == pytest.approx(plain[3:] / [0.1, 2.0])
    got, _ = run("edge_grpo", [[1, 0]], {"entropy": [[None, 2.0]]})
    assert got == pytest.approx(plain[3:])


@pytest.mark.parametrize("name", ["edge_grpo", "rl_zvp"])
def test_without_entropies(name):
    got, est = run(name, [[1, 0], [1, 1]], {}, eps=1e-4)
    assert got == pytest.approx(bt.estimator("grpo")(bt.Groups.from_nested([[1, 0], [1, 1]])))
    assert est.reading["missing"] == ["entropy"]


def test_rl_zvp_by_hand():
    rewards = [[1, 1], [0, 0], [1, 0], [0.5, 0.5], [0, 0]]
    entropy = [[0.4, 0.8], [0.4, 0.8], [0.4, 0.8], [0.4, 0.8], [0.4, None]]
    got, _ = run("rl_zvp", rewards, {"entropy": entropy}, alpha=0.1)
    assert got[:4] == pytest.approx([0.04, 0.08, -0.04, 0.0])
    assert got[4] > 0 > got[5]
    assert got[6:].tolist() == [0, 0, 0, 0]
    # the largest token entropy of the response itself, where it is known
    got, _ = run("rl_zvp", [[0, 0]], {"entropy": [[0.4, 0.8]], "entropy_max": [[1.0, None]]})
    assert got == pytest.approx([-0.06, 0.0])


def test_rl_zvp_knows_other_levels():
    got, _ = run("rl_zvp", [[-1, -1], [1, 1]], {"entropy": [[0.4, 0.8], [0.4, 0.8]]})
    assert (got[:2] <= 0).all()
    assert (got[2:] > 0).all()

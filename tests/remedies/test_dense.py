"""The dense view: shapes, memory, dtypes, and the way back."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies.view import View

sizes = st.lists(st.integers(0, 40), max_size=12)


def view(rewards):
    return View.of(bt.Groups.from_nested(rewards), bt.Tolerance())


@given(sizes, st.integers(0, 99))
def test_statistics_against_numpy(lengths, seed):
    draws = np.random.default_rng(seed)
    rows = [draws.normal(size=n) for n in lengths]
    holes = [np.where(draws.random(len(row)) < 0.2, np.nan, row) for row in rows]
    made = view([row.tolist() for row in holes])
    for block in made.blocks:
        for place, g in enumerate(block.index):
            real = holes[g][~np.isnan(holes[g])]
            assert block.scorable[place] == len(real)
            if len(real) >= 2:
                assert block.mean[place, 0] == pytest.approx(real.mean())
                assert block.std(0)[place, 0] == pytest.approx(real.std())
    back = made.flatten([block.rewards for block in made.blocks])
    expected = np.nan_to_num(np.concatenate(holes)) if holes else []
    assert back == pytest.approx(expected)


@given(sizes.filter(lambda lengths: sum(lengths) > 0))
def test_padding_at_most_doubles_the_samples(lengths):
    made = view([[0.0] * n for n in lengths])
    assert sum(block.rewards.size for block in made.blocks) <= 2 * sum(lengths)
    assert sorted(np.concatenate([block.index for block in made.blocks])) == [
        g for g, n in enumerate(lengths) if n
    ]


def test_one_huge_group_does_not_blow_up_the_memory():
    """2,000 groups of 4 beside one of 200,000: padding them all would take 3.2 GB."""
    ids = np.concatenate([np.repeat(np.arange(2000), 4), np.full(200_000, 2000)])
    rewards = np.random.default_rng(0).random(len(ids))
    tracemalloc.start()
    got = bt.advantages(rewards, ids)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert got[8000:] == pytest.approx(
        (rewards[8000:] - rewards[8000:].mean()) / (rewards[8000:].std(ddof=1) + 1e-4)
    )


def test_equal_groups_are_a_reshape():
    made = view([[1, 2], [3, 4]])
    [block] = made.blocks
    assert made.place is None
    assert np.shares_memory(block.rewards, made.groups.rewards)


@pytest.mark.parametrize("kind", ["int64", "bool", "float32", "float16"])
def test_kinds_of_numpy_input(kind):
    rewards = np.array([1, 0, 0, 1]).astype(kind)
    got = bt.advantages(rewards, np.array([0, 0, 1, 1]))
    assert got.dtype == (np.float64 if kind in ("int64", "bool") else rewards.dtype)
    assert got.astype(float) == pytest.approx([0.7070, -0.7070, -0.7070, 0.7070], abs=1e-3)


@pytest.mark.parametrize("kind", ["int64", "bool", "float32", "bfloat16"])
def test_kinds_of_torch_input(kind):
    torch = pytest.importorskip("torch")
    rewards = torch.tensor([1, 0, 0, 1]).to(getattr(torch, kind))
    got = bt.advantages(rewards, torch.tensor([0, 0, 1, 1]))
    assert got.dtype == (torch.float32 if kind in ("int64", "bool") else rewards.dtype)
    assert got.tolist() == pytest.approx([0.7070, -0.7070, -0.7070, 0.7070], abs=4e-3)


def test_rows_of_a_list_come_back_as_numpy_in_their_order():
    got = bt.advantages([1, None, 0, 2, 2], ["b", "b", "b", "a", "a"], method="dr_grpo")
    assert got.tolist() == [0.5, 0, -0.5, 0, 0]
    got = bt.advantages([2, 1, 2, 0], ["a", "b", "a", "b"], method="dr_grpo")
    assert got.tolist() == [0, 0.5, 0, -0.5]
    assert bt.advantages([], []).shape == (0,)
    with pytest.raises(ValueError, match="one number per row"):
        bt.advantages(np.zeros((2, 2)), [0, 1])


def test_rows_carry_the_gradient():
    torch = pytest.importorskip("torch")
    rewards = torch.tensor([1.0, 5.0, 0.0, 6.0], requires_grad=True)
    got = bt.advantages(rewards, ["a", "b", "a", "b"], method="dr_grpo")
    got[0].backward()
    assert rewards.grad.tolist() == [0.5, 0, -0.5, 0]


def test_huge_rewards_stay_finite_in_a_narrow_dtype():
    top = np.finfo(np.float16).max
    got = bt.advantages(np.array([top, -top, -top], dtype=np.float16), [0, 0, 0], method="rloo")
    assert np.isfinite(got).all()
    assert got[0] == top


def test_read_only_columns_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    entropy = np.ones((1, 2))
    entropy.setflags(write=False)
    rewards = torch.tensor([[1.0, 0.0]], requires_grad=True)
    groups = bt.Groups.from_dense(rewards, entropy=entropy)
    assert bt.estimator("edge_grpo")(groups).detach().tolist() == pytest.approx(
        [0.707, -0.707], abs=1e-3
    )


def test_the_view_is_shared_and_the_tolerance_counts():
    groups = bt.Groups.from_nested([[1.0, 1.001]])
    loose = bt.Tolerance(atol=1e-2)
    assert View.of(groups, loose) is View.of(groups, loose)
    assert bt.estimator("grpo")(groups)[1] > 0
    assert (bt.estimator("grpo", tolerance=loose)(groups) == 0).all()
    with pytest.raises(ValueError, match="tolerance"):
        bt.estimator("grpo", tolerance=0.1)

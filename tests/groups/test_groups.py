"""What groups answer and how parts of them are taken."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups
from buttress.errors import UsageError
from buttress.groups import Problem, Run, Scalar
from tests.helpers import require

nan = float("nan")


def batch():
    return Groups.from_nested(
        [[1, 2, 3], [], [4], [5, 6]],
        prompt_id=["a", "b", None, "a"],
        step=[1, 1, 2, 2],
        length=[[10, 20, 30], [], [40], [50, 60]],
        tag=[["x", "y", "z"], [], ["u"], ["v", "w"]],
    )


@pytest.mark.parametrize(
    "keep",
    [[True, False, False, True], np.array([0, 3]), [0, 3], [0, -1], (0, 3)],
)
def test_select(keep):
    part = batch().select(keep)
    assert part.values.tolist() == [1, 2, 3, 5, 6]
    assert part.offsets.tolist() == [0, 3, 5]
    assert part.order.tolist() == [0, 1, 2, 4, 5]
    assert part.step.tolist() == [1, 2]
    assert part.prompt_id.tolist() == ["a", "a"]
    assert part.group_id.tolist() == [0, 3]
    assert part.columns["length"].tolist() == [10, 20, 30, 50, 60]
    assert part.columns["tag"].tolist() == ["x", "y", "z", "v", "w"]


def test_select_in_any_order_and_more_than_once():
    part = batch().select([3, 1, 3])
    assert part.values.tolist() == [5, 6, 5, 6]
    assert part.sizes.tolist() == [2, 0, 2]


@pytest.mark.parametrize("keep", [[], np.zeros(4, dtype=bool)])
def test_select_nothing(keep):
    part = batch().select(keep)
    assert (len(part), part.n_samples) == (0, 0)
    assert len(Groups.from_nested([]).select(np.zeros(0, dtype=bool))) == 0


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ([True, False], ["4 groups", "(2,)"]),
        ([4], ["group 4", "there are 4"]),
        ([0, -5], ["group -5"]),
        ([0.5, 1.0], ["float64"]),
        (["a"], ["mask"]),
        (np.zeros((4, 1), dtype=bool), ["(4, 1)"]),
    ],
)
def test_select_what_is_not_there(keep, words):
    with pytest.raises(UsageError) as caught:
        batch().select(keep)
    for word in words:
        assert word in str(caught.value)


def test_select_by_a_torch_mask():
    torch = require("torch")
    assert batch().select(torch.tensor([False, False, True, False])).values.tolist() == [4]


def test_with_rewards_keeps_everything_else():
    groups = batch()
    assert groups.rewards[0] == 1  # what was derived from the old rewards must not stay
    other = groups.with_rewards([None, 2, 3, 4, np.inf, 6])
    np.testing.assert_array_equal(other.rewards, [nan, 2, 3, 4, nan, 6])
    assert groups.rewards.tolist() == [1, 2, 3, 4, 5, 6]
    for name in ("offsets", "order", "step", "group_id", "prompt"):
        assert getattr(other, name).tolist() == getattr(groups, name).tolist()
    assert other.columns is groups.columns
    assert other.select([0]).values.shape == (3,)


@pytest.mark.parametrize("values", [[1, 2], np.zeros((6, 1)), np.float64(1), []])
def test_with_rewards_of_another_shape(values):
    with pytest.raises(UsageError, match="6 values"):
        batch().with_rewards(values)


def test_column():
    groups = Groups.from_nested(
        [[1, np.inf]], correct=[[True, None]], length=[[3, 4]], text=[["a", None]]
    )
    np.testing.assert_array_equal(groups.column("reward"), [1, nan])
    np.testing.assert_array_equal(groups.column("correct"), [1, nan])
    assert groups.column("length").dtype == np.float64
    assert groups.column("advantage") is None
    with pytest.raises(UsageError, match="column 'text'"):
        groups.column("text")


def test_prompt_identities():
    groups = batch()
    assert groups.has_prompts
    assert groups.prompt.tolist() == [0, 1, -1, 0]
    assert groups.prompt_id.tolist() == ["a", "b", None, "a"]
    assert not Groups.from_nested([[1]]).has_prompts
    tuples = Groups.from_nested([[1], [2]], prompt_id=[("p", 1), ("p", 2)])
    assert tuples.prompt_id.tolist() == [("p", 1), ("p", 2)]


def test_repr():
    assert repr(batch()) == "Groups(4 groups, 6 samples, sizes 0-3)"
    run = Run(batch(), {"loss": Scalar(np.arange(300), np.zeros(300))})
    assert repr(run) == f"Run({batch()!r}, 1 metric, memory)"
    run = Run(batch(), problems=(Problem("a.jsonl", 3, "cut off"),) * 2)
    assert repr(run) == f"Run({batch()!r}, 0 metrics, memory, 2 problems)"


sizes = st.lists(st.integers(0, 5), max_size=12)


@given(sizes=sizes, data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_mask_and_its_complement_share_out_the_samples(sizes, data):
    groups = Groups.from_nested([[float(i)] * n for i, n in enumerate(sizes)])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))))
    mask = mask.astype(bool)
    chosen, others = groups.select(mask), groups.select(~mask)
    assert sorted([*chosen.order.tolist(), *others.order.tolist()]) == list(range(sum(sizes)))
    np.testing.assert_array_equal(chosen.rewards, groups.rewards[chosen.order])
    np.testing.assert_array_equal(chosen.sizes, np.array(sizes, dtype=int)[mask])

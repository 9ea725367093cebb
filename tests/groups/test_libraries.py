"""Groups from pandas, Polars, torch and the array API."""

import numpy as np
import pytest

from buttress import Groups
from tests.groups.reading import as_lists
from tests.helpers import require

nan = float("nan")


def test_pandas_columns_with_any_index():
    pd = require("pandas")
    frame = pd.DataFrame(
        {
            "reward": [1.0, None, 3.0, 4.0],
            "group": ["b", "a", "b", "a"],
            "prompt": ["pb", "pa", "pb", "pa"],
            "length": [10, 20, 30, 40],
        },
        index=[9, 7, 5, 3],
    )
    groups = Groups.from_flat(
        frame.reward, frame.group, prompt_id=frame.prompt, length=frame.length
    )
    assert as_lists(groups) == [[1, 3], [None, 4]]
    assert groups.prompt_id.tolist() == ["pb", "pa"]
    assert groups.columns["length"].tolist() == [10, 30, 20, 40]
    assert as_lists(groups.select([1])) == [[None, 4]]


def test_pandas_nullable_columns():
    pd = require("pandas")
    rewards = pd.array([1, None, 3, 4], dtype="Int64")
    ids = pd.Series([5, 5, 6, 6], dtype="Int64")
    prompts = pd.Series(["p", pd.NA, pd.NA, pd.NA], dtype="object")
    groups = Groups.from_flat(rewards, ids, prompt_id=prompts, correct=pd.array([True, pd.NA] * 2))
    assert as_lists(groups) == [[1, None], [3, 4]]
    assert groups.prompt_id.tolist() == ["p", None]
    np.testing.assert_array_equal(groups.column("correct"), [1, nan, 1, nan])
    categories = pd.Series(["u", "v", "u", "v"], dtype="category")
    assert as_lists(Groups.from_flat([1, 2, 3, 4], categories)) == [[1, 3], [2, 4]]


def test_polars_columns():
    pl = require("polars")
    frame = pl.DataFrame(
        {"reward": [1, None, 3], "group": ["b", "a", "b"], "prompt": ["x", None, "x"]}
    )
    groups = Groups.from_flat(frame["reward"], frame["group"], prompt_id=frame["prompt"])
    assert as_lists(groups) == [[1, 3], [None]]
    assert groups.prompt_id.tolist() == ["x", None]


def test_torch_rewards_stay_torch_and_carry_gradient():
    torch = require("torch")
    rewards = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    groups = Groups.from_flat(rewards, torch.tensor([1, 0, 1, 0]), step=torch.tensor([3, 4]))
    assert as_lists(groups) == [[1, 3], [2, 4]]
    assert groups.step.tolist() == [3, 4]
    (groups.select([1]).values * torch.tensor([1.0, 10.0])).sum().backward()
    assert rewards.grad.tolist() == [0, 1, 0, 10]


def test_torch_rows_of_nested_groups_carry_gradient():
    torch = require("torch")
    first = torch.tensor([1.0, 2.0], requires_grad=True)
    groups = Groups.from_nested([first, torch.tensor([3.0])])
    assert as_lists(groups) == [[1, 2], [3]]
    groups.values.sum().backward()
    assert first.grad.tolist() == [1, 1]
    matrix = torch.arange(6.0).reshape(2, 3)
    assert as_lists(Groups.from_nested(matrix)) == as_lists(Groups.from_dense(matrix))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64", "bool"])
def test_torch_types(name):
    torch = require("torch")
    rewards = torch.tensor([[1, 0], [1, 1]]).to(getattr(torch, name))
    groups = Groups.from_dense(rewards, length=torch.tensor([[1, 2], [3, 4]]))
    assert groups.values.dtype == rewards.dtype
    assert as_lists(groups) == [[1, 0], [1, 1]]
    assert groups.columns["length"].tolist() == [1, 2, 3, 4]


def test_bfloat16_keeps_its_own_rounding():
    torch = require("torch")
    rewards = torch.tensor([0.1, 0.1001], dtype=torch.bfloat16)
    assert Groups.from_flat(rewards, [0, 0]).rewards.tolist() == [0.10009765625] * 2


def test_array_api_rewards():
    xp = require("array_api_strict")
    rewards = xp.asarray([1.0, 2.0, 3.0, 4.0])
    groups = Groups.from_flat(rewards, [1, 0, 1, 0])
    assert type(groups.values) is type(rewards)
    assert as_lists(groups) == [[1, 3], [2, 4]]
    assert as_lists(Groups.from_dense(xp.reshape(rewards, (2, 2)))) == [[1, 2], [3, 4]]

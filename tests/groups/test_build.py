"""Groups from what people have: nested lists, flat rows, dense arrays."""

from decimal import Decimal

import numpy as np
import pytest

from buttress import Groups
from tests.groups.reading import as_lists

nan = float("nan")


# --- nested ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([], []),
        ([[]], [[]]),
        ([[], [], [1, 2], []], [[], [], [1, 2], []]),
        ([[3, 1, 4, 1], [5], [9, 2]], [[3, 1, 4, 1], [5], [9, 2]]),
        ([[None, True], [nan, -np.inf, np.inf, 2]], [[None, 1], [None, None, None, 2]]),
        ([(0.25, 1), [Decimal("0.5")], np.array([7, 8])], [[0.25, 1], [0.5], [7, 8]]),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        ((row for row in [[1], [2, 3]]), [[1], [2, 3]]),
    ],
)
def test_nested(rewards, expected):
    groups = Groups.from_nested(rewards)
    assert as_lists(groups) == expected
    assert groups.sizes.tolist() == [len(row) for row in expected]
    assert groups.order.tolist() == list(range(groups.n_samples))


def test_nested_columns_may_be_nested_or_flat():
    nested = Groups.from_nested([[1, 0], [1]], correct=[[1, None], [0]], length=[[5, 6], [7]])
    flat = Groups.from_nested([[1, 0], [1]], correct=[1, None, 0], length=np.array([5, 6, 7]))
    for groups in (nested, flat):
        np.testing.assert_array_equal(groups.column("correct"), [1, nan, 0])
        assert groups.columns["length"].tolist() == [5, 6, 7]
        assert groups.columns["length"].dtype.kind == "i"


def test_texts_stay_texts_however_long():
    long = "x" * 100_000
    groups = Groups.from_nested([[1, 2]], completion=[[long, None]])
    assert groups.columns["completion"].tolist() == [long, None]
    assert groups.columns["completion"].nbytes < 1000  # not padded to the longest


def test_chat_messages_are_a_column():
    chat = [{"role": "assistant", "content": "4"}]
    groups = Groups.from_nested([[1, 0]], completion=[[chat, chat]])
    assert groups.columns["completion"].tolist() == [chat, chat]


def test_a_mapping_of_columns_with_slashes():
    groups = Groups.from_nested([[1, 0]], **{"reward/format": [[0.5, None]]})
    np.testing.assert_array_equal(groups.column("reward/format"), [0.5, nan])


# --- dense -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [
        [[1, 0, None], [2, 3, 4]],
        np.array([[1, 0, nan], [2, 3, 4]]),
        np.array([[1, 0, nan], [2, 3, 4]], dtype=np.float32),
        np.ma.masked_equal(np.array([[1, 0, 9], [2, 3, 4]]), 9),
        np.array([[1, 0, None], [2, 3, 4]], dtype=object),
    ],
)
def test_dense(rewards):
    groups = Groups.from_dense(rewards, prompt_id=["a", "b"], step=[4, 5])
    assert as_lists(groups) == [[1, 0, None], [2, 3, 4]]
    assert groups.prompt_id.tolist() == ["a", "b"]
    assert groups.step.tolist() == [4, 5]


@pytest.mark.parametrize("shape", [(0, 0), (0, 8), (3, 0)])
def test_dense_without_samples(shape):
    groups = Groups.from_dense(np.zeros(shape), prompt_id=range(shape[0]))
    assert len(groups) == shape[0]
    assert groups.n_samples == 0
    assert groups.sizes.tolist() == [0] * shape[0]


def test_dense_columns_become_numbers_where_they_are():
    groups = Groups.from_dense(
        np.zeros((2, 2)), correct=[[1, None], [0, 1]], tag=[["a", "b"], ["c", None]]
    )
    assert groups.columns["correct"].dtype == np.float64
    assert groups.columns["tag"].tolist() == ["a", "b", "c", None]


# --- flat --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        ["x", "y", "x", "z"],
        [30, -4, 30, 7],
        [2**80, 3, 2**80, 5],
        [2.5, 0.5, 2.5, 1.5],
        [("p", 1), ("p", 2), ("p", 1), ("q", 1)],
        [(1, 2), (3, 4), (1, 2), (5, 6)],
        ["7", 7, "7", (7,)],
        [b"x", "x", b"x", 0],
        np.array(["x", "y", "x", "z"]),
        np.array([3, 1, 3, 2], dtype=np.uint8),
        np.array([2**64 - 1, 0, 2**64 - 1, 1], dtype=np.uint64),
        np.array(["2024-01-01", "2024-01-02", "2024-01-01", "2024-01-03"], dtype="datetime64[D]"),
    ],
)
def test_ids_of_any_type(ids):
    groups = Groups.from_flat([1, 2, 3, 4], ids)
    assert as_lists(groups) == [[1, 3], [2], [4]]
    assert groups.order.tolist() == [0, 2, 1, 3]
    assert [one == ids[row] for one, row in zip(groups.group_id, [0, 1, 3], strict=True)] == [
        True
    ] * 3


def test_ids_equal_as_python_compares_them():
    assert len(Groups.from_flat([1, 2, 3], [1, True, 1.0])) == 1
    assert len(Groups.from_flat([1, 2], ["1", 1])) == 2


def test_no_rows():
    groups = Groups.from_flat([], [])
    assert (len(groups), groups.n_samples, groups.offsets.tolist()) == (0, 0, [0])
    assert not groups.has_prompts
    assert repr(groups) == "Groups(0 groups, 0 samples, sizes none)"


def test_steps_per_row_part_one_id_into_groups():
    groups = Groups.from_flat(
        [1, 2, 3, 4, 5], ["a", "a", "b", "a", "a"], step=[7, 8, 7, 7, 8], length=[1, 2, 3, 4, 5]
    )
    assert as_lists(groups) == [[1, 4], [2, 5], [3]]
    assert groups.step.tolist() == [7, 8, 7]
    assert groups.group_id.tolist() == ["a", "a", "b"]
    assert groups.columns["length"].tolist() == [1, 4, 2, 5, 3]


@pytest.mark.parametrize("steps", [[-1, 0, 0, -1], [10**15, -(10**15), -(10**15), 10**15]])
def test_steps_of_any_sign_and_size_never_merge_groups(steps):
    # id and step together must not collide
    groups = Groups.from_flat([1, 2, 3, 4], [1, 0, 1, 0], step=steps)
    assert sorted(groups.sizes.tolist()) == [1, 1, 1, 1]
    assert groups.step.tolist() == steps


def test_steps_and_prompts_per_group_in_order_of_first_appearance():
    groups = Groups.from_flat(
        [1, 2, 3, 4], ["b", "a", "b", "a"], step=[5, 6], prompt_id=["pb", "pa"]
    )
    assert groups.prompt_id.tolist() == ["pb", "pa"]
    assert groups.step.tolist() == [5, 6]


def test_singletons_make_rows_and_groups_coincide():
    groups = Groups.from_flat(
        [1, 2, 3], ["c", "a", "b"], step=[3, 1, 2], prompt_id=["x", None, "x"]
    )
    assert groups.step.tolist() == [3, 1, 2]
    assert groups.prompt_id.tolist() == ["x", None, "x"]
    assert groups.order.tolist() == [0, 1, 2]


def test_prompts_per_row():
    groups = Groups.from_flat(
        [1, 2, 3, 4, 5], ["a", "b", "a", "b", "c"], prompt_id=["p", "q", "p", "q", None]
    )
    assert groups.prompt_id.tolist() == ["p", "q", None]
    assert groups.columns["prompt"].tolist() == [0, 0, 1, 1, -1]


def test_a_row_without_prompt_does_not_rename_its_group():
    groups = Groups.from_flat([1, 2, 3, 4], ["a", "a", "b", "b"], prompt_id=[None, "p", None, None])
    assert groups.prompt_id.tolist() == ["p", None]


def test_row_codes_and_group_codes_speak_of_the_same_prompts():
    # the prompt q never leads a group; codes after it must not shift
    groups = Groups.from_flat(
        [1] * 6, ["a", "a", "b", "b", "c", "c"], prompt_id=["p", "q", "r", "r", "s", "s"]
    )
    leads = groups.columns["prompt"][groups.offsets[:-1]]
    assert leads.tolist() == groups.prompt.tolist()
    assert groups.prompt_id.tolist() == ["p", "r", "s"]


def test_prompt_texts_are_identities_unless_there_are_better_ones():
    texts = ["1+1?", "1+1?", "2+2?"]
    groups = Groups.from_flat([1, 0, 1], [0, 0, 1], prompt=texts)
    assert groups.prompt_id.tolist() == ["1+1?", "2+2?"]
    groups = Groups.from_flat([1, 0, 1], [0, 0, 1], prompt=texts, prompt_id=["p", "p", "q"])
    assert groups.prompt_id.tolist() == ["p", "q"]
    assert groups.columns["prompt_text"].tolist() == texts
    nested = Groups.from_nested([[1, 0], [1]], prompt=[["u", "u"], ["v"]])
    assert nested.prompt_id.tolist() == ["u", "v"]


def test_prompt_ids_of_nested_groups_are_one_per_group_always():
    # two groups and two rollouts: the identities still belong to the groups
    groups = Groups.from_nested([[], [1, 0]], prompt_id=["a", "b"])
    assert groups.prompt_id.tolist() == ["a", "b"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64, bool])
def test_number_types_keep_their_values(dtype):
    values = np.array([1, 0, 1, 1], dtype=dtype)
    groups = Groups.from_flat(values, [0, 1, 0, 1])
    assert groups.values.dtype == dtype
    assert groups.rewards.dtype == np.float64
    assert as_lists(groups) == [[1, 1], [0, 1]]


def test_input_is_not_changed():
    values, ids = np.array([1.0, np.inf, 2.0]), np.array([1, 0, 1])
    groups = Groups.from_flat(values, ids)
    groups.rewards[:] = 7
    assert values.tolist() == [1.0, np.inf, 2.0]
    assert ids.tolist() == [1, 0, 1]

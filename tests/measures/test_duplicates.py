"""Completions that repeat inside their group."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups
from buttress.measures import distinct_completions, duplicates

text = st.sampled_from(["a", "b", "c", "", None])


@given(st.lists(st.lists(text, max_size=9), max_size=8))
@settings(max_examples=200, deadline=None)
def test_counts_are_what_a_counter_says(rows):
    groups = Groups.from_nested([[0.0] * len(row) for row in rows], completion=rows)
    known = [[one for one in row if one is not None] for row in rows]
    assert distinct_completions(groups).tolist() == [len(set(row)) for row in known]
    several = [Counter(row) for row in known if len(row) >= 2]
    found = duplicates(groups)
    assert found.groups == len(several)
    assert found.identical == sum(len(counter) == 1 for counter in several)
    assert found.completions == sum(map(Counter.total, several))
    assert found.repeated == sum(counter.total() - len(counter) for counter in several)


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 1), max_size=9)))
@settings(max_examples=100, deadline=None)
def test_hashes_count_like_texts_whatever_their_sign(rows):
    zeros = [[0.0] * len(row) for row in rows]
    numbers = np.array([one for row in rows for one in row], dtype=np.int64)
    hashed = Groups.from_nested(zeros, completion=numbers)
    spelled = Groups.from_nested(zeros, completion=[[str(one) for one in row] for row in rows])
    assert distinct_completions(hashed).tolist() == distinct_completions(spelled).tolist()
    assert duplicates(hashed) == duplicates(spelled)


def test_unknown_texts_repeat_nothing():
    groups = Groups.from_nested(
        [[1, 1], [1, 1], [1, 1, 1]], completion=[[None, None], ["None", None], ["x", "x", None]]
    )
    found = duplicates(groups)
    assert (found.groups, found.identical, found.completions, found.repeated) == (1, 1, 2, 1)


def test_empty_texts_are_texts():
    assert duplicates(Groups.from_nested([[0, 0]], completion=[["", ""]])).identical_rate == 1.0


@pytest.mark.parametrize(
    "groups", [Groups.from_nested([[1, 1]]), Groups.from_nested([[1]], completion=[["a"]])]
)
def test_rates_without_anything_to_compare_are_unknown(groups):
    found = duplicates(groups)
    assert math.isnan(found.identical_rate)
    assert math.isnan(found.repeated_rate)
    assert (distinct_completions(groups) is None) == ("completion" not in groups.columns)


def test_groups_of_one_size_and_ragged_groups_agree():
    draws = np.random.default_rng(3)
    numbers = draws.integers(0, 6, (40, 8))
    even = Groups.from_dense(numbers.astype(float), completion=numbers)
    expected = [len(set(row)) for row in numbers.tolist()]
    assert distinct_completions(even).tolist() == expected
    rows = [row[: 1 + i % 8].tolist() for i, row in enumerate(numbers)]
    ragged = Groups.from_nested(rows, completion=rows)
    assert distinct_completions(ragged).tolist() == [len(set(row)) for row in rows]

"""The numbers of a live run, by hand and against the measures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.groups import DEFAULT_TOLERANCE, Groups
from buttress.hooks import metrics
from buttress.measures import Levels, collapse_rate, composition
from buttress.measures.statistics import ratio
from buttress.remedies import estimator

UNKNOWN = Levels(math.nan, math.nan)
rewards = st.lists(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=5), min_size=1, max_size=8
)


@given(rewards)
def test_shares_are_those_of_the_measures(rows):
    groups = Groups.from_nested(rows)
    levels = metrics.widened(UNKNOWN, groups, DEFAULT_TOLERANCE)
    found = metrics.collapse_metrics(groups, levels, DEFAULT_TOLERANCE)
    counts = composition(groups)
    eligible = sum(counts[kind] for kind in ("mixed", "all_wrong", "all_correct", "tied_between"))
    np.testing.assert_equal(found["acr"], collapse_rate(groups))
    for kind in ("all_wrong", "all_correct"):
        assert found[kind] == pytest.approx(ratio(counts[kind], eligible), nan_ok=True)


@given(rewards)
def test_acr_after_grpo_is_the_acr(rows):
    groups = Groups.from_nested(rows)
    after = metrics.acr_after(groups, estimator("grpo")(groups), DEFAULT_TOLERANCE)
    np.testing.assert_equal(after, collapse_rate(groups))


def test_a_group_speaks_when_any_of_its_tokens_does():
    groups = Groups.from_nested([[0, 0], [0, 0], [1, 0], [1]])
    advantages = np.zeros((7, 3))
    advantages[1, 2] = -1e-30
    assert metrics.acr_after(groups, advantages, DEFAULT_TOLERANCE) == 2 / 3


def test_levels_only_widen():
    levels = UNKNOWN
    for rows in ([[None, None]], [[1, 1]], [[None, 3]], [[0.5, 2]]):
        levels = metrics.widened(levels, Groups.from_nested(rows), DEFAULT_TOLERANCE)
    assert levels == (0.5, 3)


def test_reading_keeps_numbers_that_are_news():
    reading = estimator("avspo")
    reading(Groups.from_nested([[0, 0], [1, 0]]))
    found = metrics.reading_metrics(reading.reading)
    assert found["threshold"] == 0.5
    assert {"K", "triggered", "augmented"} <= set(found)
    assert not {"acr", "acr_after", "groups"} & set(found)
    assert all(type(value) is float for value in found.values())
    assert metrics.reading_metrics({"a": "text", "b": None, "c": [1], "d": np.float32(2)}) == {
        "d": 2.0
    }

"""The kinds of groups."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups, Tolerance, composition
from buttress.measures import KINDS, Composition, GroupSummary, Levels, by_step, kinds
from tests.measures.batches import batches, is_tied, scorable

nan = math.nan


def counts(rewards, tolerance=None, **columns):
    found = composition(Groups.from_nested(rewards, **columns), *([tolerance] if tolerance else []))
    return {name: number for name, number in found.items() if number}


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-1, 1), (0, 2), (-7, 3), (0.1, 1.1), (5, 6), (-2, -1), (-1e6, 1e6)]
)
def test_levels_of_any_scale(low, high):
    middle = (low + high) / 2
    rewards = [[low, low], [low] * 3, [high] * 4, [middle, middle], [low, high]]
    assert counts(rewards) == {"mixed": 1, "all_wrong": 2, "all_correct": 1, "tied_between": 1}
    # the levels may come from tied groups alone
    assert counts([[low, low], [high, high]]) == {"all_wrong": 1, "all_correct": 1}


def test_levels_come_from_every_scorable_rollout():
    # a lone rollout and a half-scored group show levels too
    assert counts([[0.5, 0.5], [0], [1, None]]) == {
        "tied_between": 1,
        "singleton": 1,
        "unscorable": 1,
    }


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        (0, "all_wrong"),
        (-1, "all_wrong"),
        (-0.0, "all_wrong"),
        (-1e9, "all_wrong"),
        (1e-9, "all_wrong"),
        (1, "all_correct"),
        (0.99999994, "all_correct"),
        (0.5, "tied_between"),
        (2, "tied_between"),
        (1.01, "tied_between"),
        (1e-3, "tied_between"),
    ],
)
def test_one_level_only(level, kind):
    assert counts([[level, level], [level] * 3, [None, level]]) == {kind: 2, "unscorable": 1}


def test_float_twins_are_one_level():
    assert counts([[1, 1], [0.99999994] * 2, [1, 0.99999994]]) == {"all_correct": 3}
    # and a twin of the highest level is that level
    assert counts([[0, 0], [0.99999994] * 2, [1, 1]]) == {"all_wrong": 1, "all_correct": 2}


def test_correct_decides_where_known():
    rewards = [[0.2, 0.2], [0.2, 0.2], [0.2, 0.2], [0.2, 0.2], [0.2, 0.2], [0.9, 0.1]]
    correct = [[1, 1], [0, 0], [1, 0], [None, None], [None, 1], [1, 1]]
    assert counts(rewards, correct=correct) == {
        "mixed": 1,
        "all_wrong": 1,
        "all_correct": 2,
        "tied_between": 2,  # half right; and unknown, at neither level of the reward
    }


def test_correct_without_a_single_verdict_changes_nothing():
    rewards = [[0, 0], [1, 1], [0, 1]]
    assert counts(rewards, correct=[[None] * 2] * 3) == counts(rewards)


def test_partial_verdicts_are_between():
    assert counts([[0, 0], [1, 1]], correct=[[0.5, 0.5], [1, 0.999]]) == {"tied_between": 2}


@pytest.mark.parametrize("scale", [1, 7, 1e-3, 1e6])
@pytest.mark.parametrize("shift", [0, -0.5])
def test_near_tied(scale, shift):
    # two thirds of the groups at the ends show the scale
    rewards = [[0, 1], [0.5, 0.51], [0.5, 0.5099], [0.5, 0.52], [0.3, 0.3]]
    moved = [[(r + shift) * scale for r in row] for row in rewards]
    found = counts(moved, Tolerance(atol=1e-9, rtol=1e-9, resolution=0.0101))
    assert found["near_tied"] == 2
    assert found["mixed"] == 4  # near-tied groups are mixed too


def test_resolution_is_settable():
    rewards = [[0, 1], [0.5, 0.6]]
    assert "near_tied" not in counts(rewards)
    assert counts(rewards, Tolerance(resolution=0.11))["near_tied"] == 1
    assert "near_tied" not in counts(rewards, Tolerance(resolution=0))


def test_a_nearly_constant_run_is_near_tied_throughout():
    assert counts([[0.5, 0.5001], [0.5, 0.5002]]) == {"mixed": 2, "near_tied": 2}


def test_huge_rewards():
    assert counts([[1.7e308, -1.7e308], [0, 0], [1.7e308] * 2]) == {
        "mixed": 1,
        "all_correct": 1,
        "tied_between": 1,
    }


def test_empty_groups_are_of_no_kind():
    assert counts([[], [1], [None, None], [None], [None, 2, None]]) == {
        "singleton": 2,
        "unscorable": 2,
    }
    assert counts([]) == {}


def test_names_and_order_of_the_report():
    assert list(composition(Groups.from_nested([]))) == [
        "mixed",
        *KINDS,
        "near_tied",
        "unscorable",
        "singleton",
    ]


def test_levels_of_the_whole_run_may_be_given():
    part = Groups.from_nested([[1, 1], [2, 2]])
    summary = GroupSummary.of(part)
    assert kinds(part, summary).tolist() == [0, 1]
    assert kinds(part, summary, Levels(0, 2)).tolist() == [2, 1]
    table = by_step(part, levels=Levels(0, 3))
    assert table.tied_between.tolist() == [2]


@given(batches())
@settings(max_examples=200, deadline=None)
def test_counts_are_what_loops_find(groups):
    values, verdicts = scorable(groups), scorable(groups, "correct")
    flat = [v for group in values for v in group]
    low, high = (min(flat), max(flat)) if flat else (nan, nan)
    expected = dict.fromkeys(composition(groups), 0)
    for size, group, verdict in zip(groups.sizes, values, verdicts, strict=True):
        if len(group) < 2:
            expected["unscorable"] += size >= 2
            expected["singleton"] += size == 1
        elif not is_tied(group):
            expected["mixed"] += 1
        else:
            expected[loop_kind(min(group), verdict, low, high)] += 1
    found = composition(groups)
    assert found.pop("near_tied") <= found["mixed"]
    expected.pop("near_tied")
    assert found == expected


def loop_kind(value, verdict, low, high):
    """The rule of the contract, one tied group at a time."""
    if verdict:
        right = [v >= 1 - 1e-6 for v in verdict]
        wrong = [v <= 1e-6 for v in verdict]
        return "all_wrong" if all(wrong) else "all_correct" if all(right) else "tied_between"
    if is_tied([low, high]):
        if value <= 0 or is_tied([0, value]):
            return "all_wrong"
        return "all_correct" if is_tied([1, value]) else "tied_between"
    if is_tied([low, value]):
        return "all_wrong"
    return "all_correct" if is_tied([value, high]) else "tied_between"


@given(batches(rewards=st.sampled_from([0, 1, 2, None])))
@settings(max_examples=100, deadline=None)
def test_steps_and_kinds_and_counts_agree(groups):
    found = Composition.of(groups).counts()
    table = by_step(groups)
    each = kinds(groups, GroupSummary.of(groups))
    for code, name in enumerate(KINDS):
        assert getattr(table, name).sum() == getattr(found, name) == (each == code).sum()
    assert table.mixed.sum() == found.mixed
    assert table.eligible.sum() == found.mixed + found.tied
    assert table.step.tolist() == sorted(set(groups.step.tolist()))

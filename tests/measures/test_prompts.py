"""Tries and successes of each prompt, and steps."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings

from buttress import Groups
from buttress.measures import by_step, prompt_counts, success_column
from tests.measures.batches import batches, is_tied, same, scorable

nan = math.nan


@pytest.mark.parametrize(
    ("rewards", "success"),
    [
        ([[0, 1]], [0, 1]),
        ([[0.25, 0.75]], [0.25, 0.75]),
        ([[0.5, 0.5]], [0.5, 0.5]),
        ([[1, 1]], [1, 1]),
        ([[-1, 1, 0]], [0, 1, 0.5]),
        ([[-1, -1]], [0, 0]),
        ([[0, 2, 1]], [0, 1, 0.5]),
        ([[3, 3]], [1, 1]),
        ([[-3, -1]], [0, 1]),
        ([[1, None, math.inf]], [1, nan, nan]),
        ([[None]], [nan]),
        ([], []),
    ],
)
def test_success_from_rewards(rewards, success):
    np.testing.assert_allclose(success_column(Groups.from_nested(rewards)), success)


def test_success_from_verdicts():
    groups = Groups.from_nested([[5, 7, 9]], correct=[[0, None, math.inf]])
    np.testing.assert_array_equal(success_column(groups), [0, nan, nan])
    unknown = Groups.from_nested([[0, 1]], correct=[[None, None]])
    assert success_column(unknown).tolist() == [0, 1]


def test_verdicts_of_nameless_prompts_settle_how_success_is_read():
    groups = Groups.from_nested(
        [[1, 1], [1, 0]], prompt_id=["a", None], correct=[[None] * 2, [1, 0]]
    )
    table = prompt_counts(groups)
    assert (table.tries.tolist(), table.successes.tolist()) == ([0], [0])
    assert math.isnan(table.rate[0])


def test_a_prompt_that_was_never_scored_has_no_rate():
    table = prompt_counts(Groups.from_nested([[None, None], [1, 0]], prompt_id=["a", "b"]))
    assert table.tries.tolist() == [0, 2]
    assert math.isnan(table.rate[0])
    assert table.rate[1] == 0.5


def test_scale_of_the_run_and_not_of_its_parts():
    # a part that shows the lowest level only must not read it as something else
    groups = Groups.from_nested([[-1, -1], [1, -1]], prompt_id=["a", "b"])
    assert prompt_counts(groups).successes.tolist() == [0, 1]


@given(batches())
@settings(max_examples=150, deadline=None)
def test_prompts_are_what_loops_count(groups):
    success = success_column(groups)
    expected = defaultdict(lambda: [0, 0, 0, 0.0])
    for place, name in enumerate(groups.prompt_id.tolist()):
        if name is None:
            continue
        row = expected[str(name)]
        part = success[groups.offsets[place] : groups.offsets[place + 1]]
        row[0] += 1
        row[1] += is_tied(scorable(groups)[place])
        row[2] += int(np.isfinite(part).sum())
        row[3] += float(np.nansum(part))
    table = prompt_counts(groups)
    rows = zip(*(column.tolist() for column in table[1:]), strict=True)
    found = dict(zip(table.prompt_id.tolist(), rows, strict=True))
    assert same({k: list(v) for k, v in found.items()}, dict(expected))


@given(batches())
@settings(max_examples=150, deadline=None)
def test_steps_are_what_loops_count(groups):
    table = by_step(groups)
    values = scorable(groups)
    for place, step in enumerate(table.step.tolist()):
        mine = [values[g] for g in np.flatnonzero(groups.step == step)]
        eligible = [group for group in mine if len(group) >= 2]
        tied = sum(map(is_tied, eligible))
        assert same(table.acr[place], tied / len(eligible) if eligible else nan)
        flat = [v for group in mine for v in group]
        assert same(table.reward_mean[place], sum(flat) / len(flat) if flat else nan)
        assert table.mixed[place] == len(eligible) - tied
        assert table.eligible[place] == len(eligible)


def test_steps_stand_in_ascending_order():
    table = by_step(Groups.from_nested([[1, 1], [0, 1], [1, 1]], step=[9, -2, 4]))
    assert table.step.tolist() == [-2, 4, 9]
    assert table.acr.tolist() == [0, 1, 1]
    empty = by_step(Groups.from_nested([]))
    assert [len(column) for column in empty] == [0] * 7


def test_huge_rewards_have_no_mean_of_a_step_but_a_rate():
    table = by_step(Groups.from_nested([[1.7e308, 1.7e308]]))
    assert table.acr.tolist() == [1.0]

"""Logs that only look broken are left alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups
from buttress.groups import LogFacts, check_grouping
from tests.groups.rows import flat, kinds, prompts, step_of

SOUND = {
    "plain": step_of(prompts(6), 4) + step_of(prompts(6, 6), 4, step=2),
    "one group": step_of(["p"], 8),
    "one prompt in two groups of a step": [
        *step_of(prompts(5), 4),
        *step_of(["p0"], 4, name="again"),
    ],
    "only two groups, of one prompt": step_of(["p"], 4) + step_of(["p"], 4, name="again"),
    "two equal prompts in the data": [
        row
        for step in range(1, 5)
        for row in step_of(prompts(4), 5, step) + step_of(["p0"], 5, step, name="copy")
    ],
    "ragged": [
        row for n, p in zip([8, 7, 8, 5, 6, 8], prompts(6), strict=True) for row in step_of([p], n)
    ],
    "ragged, and a prompt drawn twice": [
        *step_of(prompts(5), 8),
        *step_of(["p0"], 7, name="again"),
        *step_of(["p1"], 6, name="again"),
    ],
    "group sizes by difficulty": [
        row
        for step in (1, 2, 3)
        for n, p in zip([2, 4, 8, 16, 32, 4], prompts(6), strict=True)
        for row in step_of([p], n, step)
    ],
    "group sizes by difficulty, a prompt drawn twice": [
        *[
            row
            for n, p in zip([2, 4, 8, 16, 32, 3], prompts(6), strict=True)
            for row in step_of([p], n)
        ],
        *step_of(["p1"], 5, name="again"),
    ],
    "a torn last group": (step_of(prompts(5), 4) + step_of(prompts(5), 4, step=2))[:-3],
    "a torn last group in a short file": step_of(prompts(3), 4)[:-3],
    "the same prompts at every step": [
        row for step in range(1, 8) for row in step_of(prompts(3), 4, step)
    ],
    "interleaved in the file, grouped by id": [
        row for four in zip(*[iter(step_of(prompts(4), 4))] * 4, strict=True) for row in four
    ][::-1],
    "prompts visited again in a log without steps": [
        *step_of(prompts(9), 4, step=0),
        *step_of(prompts(6), 4, step=0, name="again"),
    ],
    "one prompt at every step, in three groups": [
        row for step in range(1, 6) for row in step_of([f"p{step}"], 4, step, parts=(4, 4, 4))
    ],
    "unknown prompts": [(i // 4, None, 1) for i in range(40)],
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("facts", [None, LogFacts(grouped_by="key")])
def test_near_misses(name, facts):
    assert flat(SOUND[name], facts=facts) == []


def test_complete_groups_of_prompts_drawn_twice():
    rows = [row for step in (1, 2) for row in step_of(prompts(5), 8, step, parts=(4, 4))]
    assert flat(rows, facts=LogFacts(grouped_by="key", group_size=4)) == []
    assert kinds(flat(rows, facts=LogFacts(grouped_by="key", group_size=8))) == ["split_prompt"]


def test_two_ragged_groups_of_one_prompt_hold_more_than_one_group():
    rows = step_of(prompts(5), 8) + step_of(["p9"], 8, parts=(7, 6))
    assert flat(rows, facts=LogFacts(grouped_by="key", group_size=8)) == []


def test_uneven_groups_that_add_up_to_one_number_now_and_then():
    parts = [(5, 3), (6, 2), (7, 1), (5, 5)]
    rows = [
        row for p, cut in zip(prompts(4), parts, strict=True) for row in step_of([p], 8, parts=cut)
    ]
    rows += step_of(prompts(12, 4), 5)
    assert "split_prompt" not in kinds(flat(rows))
    assert "split_prompt" not in kinds(flat(rows[: 8 * 3 + 10]))


def test_rows_know_more_prompts_than_their_group():
    groups = Groups.from_flat([1, 0, 1, 1], [0, 0, 1, 1], prompt_id=["p", "p", "q", "q"])
    assert check_grouping(replace(groups, prompt=np.array([-1, 1]))) == []


def test_a_larger_group_of_the_trainer_is_its_own_affair():
    rows = step_of(prompts(9), 4) + step_of(["larger"], 8)
    assert flat(rows, facts=LogFacts(grouped_by="key", group_size=4)) == []


def test_a_group_that_is_no_multiple_was_not_merged():
    rows = step_of(prompts(9), 4) + step_of(["more"], 7)
    assert flat(rows, facts=LogFacts(grouped_by="prompt", group_size=4)) == []


@pytest.mark.parametrize(
    "sample",
    [
        [0, 1, 2, 3] * 6,
        [3, 1, 0, 2] * 6,
        [-1] * 24,
        ["a", "b", "c", "d"] * 6,
        list(range(24)),
        [0.0, 1.0, 2.0, None] * 6,
    ],
)
def test_sample_numbers_that_tell_rollouts_apart_or_nothing(sample):
    assert flat(step_of(prompts(6), 4), sample=sample) == []


@pytest.mark.parametrize(
    "groups",
    [
        Groups.from_nested([]),
        Groups.from_flat([], [], prompt_id=[], sample=[]),
        Groups.from_nested([[], []], prompt_id=["a", "b"]),
        Groups.from_dense(np.zeros((4, 0)), prompt_id=list("abcd")),
    ],
)
@pytest.mark.parametrize("grouped_by", [None, "key", "prompt", "position"])
def test_nothing_to_check(groups, grouped_by):
    assert check_grouping(groups, LogFacts(grouped_by=grouped_by)) == []


@given(
    sizes=st.lists(st.integers(2, 9), min_size=1, max_size=12),
    steps=st.integers(1, 4),
    seed=st.integers(0, 99),
    size=st.sampled_from([None, 2, 9]),
)
@settings(max_examples=100, deadline=None)
def test_distinct_prompts_under_their_own_ids_are_always_sound(sizes, steps, seed, size):
    rows = [
        row
        for step in range(1, steps + 1)
        for n, p in zip(sizes, prompts(len(sizes)), strict=True)
        for row in step_of([p], n, step)
    ]
    shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    assert flat(shuffled, facts=LogFacts(grouped_by="key", group_size=size)) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), min_size=1))
@settings(max_examples=200, deadline=None)
def test_any_log_is_judged_without_a_fault(rows):
    sample = [row[0] for row in rows]
    for grouped_by in (None, "key", "prompt", "position"):
        for size in (None, 1, 4):
            facts = LogFacts(grouped_by=grouped_by, group_size=size)
            for problem in flat(rows, facts=facts, sample=sample):
                assert 0 < problem.share <= 1
                assert problem.groups >= 1
                assert str(problem.groups) in problem.message or "every prompt" in problem.message


def test_steps_of_one_prompt_are_no_fragments():
    groups = Groups.from_nested(
        [[1, 0, 1, 0]] * 12,
        prompt_id=[f"p{place // 3}" for place in range(12)],
        step=[place // 3 for place in range(12)],
    )
    assert not check_grouping(groups, LogFacts(grouped_by="key"))

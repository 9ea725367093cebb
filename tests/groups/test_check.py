"""Every way in which groups are not the trainer's groups is named, and near misses are not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups
from buttress.groups import LogFacts, check_grouping

rng = np.random.default_rng(20)


def flat(rows, *, facts=None, **columns):
    """Check rows of ``(group id, prompt, step)``; rewards do not matter here."""
    ids, prompts, steps = zip(*rows, strict=True)
    rewards = rng.integers(0, 2, len(rows)).astype(float)
    groups = Groups.from_flat(
        rewards, list(ids), prompt_id=list(prompts), step=list(steps), **columns
    )
    return check_grouping(groups, facts)


def kinds(problems):
    return [problem.kind for problem in problems]


def step_of(prompts, size, step=1, parts=(), name="g"):
    """Rows of one step: each prompt with one group of `size`, or with one id per part."""
    return [
        (f"{name}-{step}-{prompt}-{part}", prompt, step)
        for prompt in prompts
        for part, n in enumerate(parts or (size,))
        for _ in range(n)
    ]


def prompts(n, start=0):
    return [f"p{i}" for i in range(start, start + n)]


# --- what is wrong -----------------------------------------------------------------------------


def test_singletons():
    (problem,) = flat([(f"rollout{i}", f"prompt{i}", 3) for i in range(10)])
    assert problem == ("singletons", 10, 1.0, True, problem.message)
    assert "10 of 10" in problem.message


def test_some_singletons_are_not_fatal():
    rows = step_of(prompts(6), 5) + [(f"alone{i}", f"alone{i}", 1) for i in range(3)]
    (problem,) = flat(rows)
    assert (problem.kind, problem.groups, problem.fatal) == ("singletons", 3, False)
    assert problem.share == pytest.approx(3 / 9)


def test_singletons_of_one_prompt_are_one_split_group_too():
    found = flat([(f"r{i}", "what is 6*7?", 0) for i in range(6)])
    assert set(kinds(found)) == {"singletons", "split_prompt"}
    assert all(problem.fatal for problem in found)


@pytest.mark.parametrize("facts", [None, LogFacts(grouped_by="key"), LogFacts(group_size=6)])
def test_a_prompt_split_over_ids(facts):
    # half of the prompts whole, half in two pieces that add up to one group
    rows = step_of(prompts(4), 6) + step_of(prompts(4, 4), 6, parts=(4, 2))
    (problem,) = flat(rows, facts=facts)
    assert (problem.kind, problem.groups, problem.fatal) == ("split_prompt", 8, True)
    assert "4 prompts" in problem.message


def test_uneven_pieces_of_every_prompt():
    parts = [(5, 3), (6, 2), (4, 4), (1, 7), (3, 3, 2)]
    rows = [
        row for p, cut in zip(prompts(5), parts, strict=True) for row in step_of([p], 8, parts=cut)
    ]
    assert "split_prompt" in kinds(flat(rows))


def test_pieces_of_a_known_size_need_no_whole_group():
    rows = step_of(prompts(2), 8, parts=(5, 3))
    assert kinds(flat(rows, facts=LogFacts(group_size=8))) == ["split_prompt"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_fragments_of_ranks(ranks):
    rows = []
    for step in (1, 2, 3):
        rows += step_of(prompts(5, step), 8, step, parts=(8 // ranks,) * ranks)
    (problem,) = flat(rows)
    assert (problem.kind, problem.fatal) == ("rank_fragments", True)
    assert problem.groups == 15 * ranks
    assert f"{ranks} ids of {8 // ranks} rollouts" in problem.message
    assert "group of 8" in problem.message


def test_fragments_stay_fragments_when_the_end_is_torn():
    rows = []
    for step in range(1, 6):
        rows += step_of(prompts(5), 6, step, parts=(3, 3))
    (problem,) = flat(rows[:-4])
    assert problem.kind == "rank_fragments"
    # and when the beginning is odd
    (problem,) = flat(rows[2:])
    assert problem.kind == "rank_fragments"


def test_fragments_in_a_log_without_steps_may_be_visits():
    rows = step_of(prompts(6), 8, step=0, parts=(4, 4))
    (problem,) = flat(rows)
    assert (problem.kind, problem.fatal) == ("rank_fragments", False)
    assert "no steps" in problem.message
    (problem,) = flat(rows, facts=LogFacts(group_size=8))
    assert problem.fatal


@pytest.mark.parametrize("size", [3, 4, 6])
def test_interleaved_rows(size):
    # position says 0 0 0 1 1 1, the prompts alternate
    names = [f"q{i % 2}" for i in range(2 * size)]
    rows = [(i // size, name, 2) for i, name in enumerate(names)]
    (problem,) = flat(rows, facts=LogFacts(grouped_by="position", group_size=size))
    assert (problem.kind, problem.groups, problem.fatal) == ("interleaved_rows", 2, True)
    assert "2 of 2" in problem.message


def test_interleaved_rows_of_many_prompts_whatever_the_reader_knows():
    rows = [(i // 5, f"q{i % 7}", 1 + i // 35) for i in range(140)]
    assert "interleaved_rows" in kinds(flat(rows))


def test_groups_of_several_prompts_under_one_id():
    rows = [(i // 8, f"q{i // 4}", 1) for i in range(48)]
    (problem,) = flat(rows)
    assert (problem.kind, problem.groups, problem.fatal) == ("merged_groups", 6, True)
    assert "prompts" in problem.message


def test_a_foreign_row_is_not_fatal_among_many_groups():
    rows = step_of(prompts(30), 4)
    rows[2] = (rows[2][0], "another prompt", 1)
    (problem,) = flat(rows)
    assert (problem.kind, problem.groups, problem.fatal) == ("merged_groups", 1, False)


@pytest.mark.parametrize("size", [None, 4])
def test_two_groups_of_one_prompt_merged_by_a_reader(size):
    rows = step_of(prompts(9), 4) + step_of(["twice"], 8)
    (problem,) = flat(rows, facts=LogFacts(grouped_by="prompt", group_size=size))
    assert (problem.kind, problem.groups) == ("merged_groups", 1)
    assert "multiple of 4" in problem.message
    assert not problem.fatal


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_fan_out(dtype):
    # three turns of each of two rollouts per group
    rows = [(i // 6, f"q{i // 6}", 1) for i in range(24)]
    sample = np.array([(i // 3) % 2 for i in range(24)], dtype=dtype)
    (problem,) = flat(rows, sample=sample)
    assert (problem.kind, problem.groups, problem.fatal) == ("fan_out", 4, True)


def test_fan_out_in_one_group_of_many():
    rows = step_of(prompts(20), 4)
    sample = [i % 4 for i in range(80)]
    sample[5] = 0
    (problem,) = flat(rows, sample=sample)
    assert (problem.kind, problem.groups, problem.fatal) == ("fan_out", 1, False)


def test_the_worst_comes_first():
    rows = [(f"r{i}", "one prompt", 1) for i in range(8)] + step_of(prompts(9), 4)
    found = flat(rows, sample=[0] * 8 + [0, 0, 1, 2] * 9)
    assert [problem.fatal for problem in found] == sorted(
        (problem.fatal for problem in found), reverse=True
    )
    assert {"split_prompt", "fan_out"} <= set(kinds(found))


# --- near misses -------------------------------------------------------------------------------

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

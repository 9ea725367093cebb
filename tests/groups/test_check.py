"""Every way in which groups are not the trainer's groups is named."""

import numpy as np
import pytest

from buttress.groups import LogFacts
from tests.groups.rows import flat, kinds, prompts, step_of


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


def test_shuffled_ids_are_called_so():
    rng = np.random.default_rng(0)
    rows = [(f"g{i // 8}", f"prompt{i // 8}", 1) for i in range(320)]
    ids = rng.permutation([row[0] for row in rows])
    shuffled = [(name, *row[1:]) for name, row in zip(ids, rows, strict=True)]
    for facts in (None, LogFacts(grouped_by="key")):
        (problem,) = flat(shuffled, facts=facts)
        assert (problem.kind, problem.fatal) == ("interleaved_rows", True)
        assert "ids shuffled" in problem.message
        assert "consecutive" not in problem.message
    (problem,) = flat(shuffled, facts=LogFacts(grouped_by="position"))
    assert "neighbours are not a group" in problem.message


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

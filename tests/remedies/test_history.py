"""dcpo, spo and the table of prompts: what earlier visits change."""

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.groups import DEFAULT_TOLERANCE
from buttress.remedies.prompts import PromptTable, Rows, empty, of_groups
from buttress.remedies.view import View


def visit(est, *rewards, ids=None):
    ids = ids or [f"p{i}" for i in range(len(rewards))]
    return est(bt.Groups.from_nested(list(rewards), prompt_id=ids))


visits = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 0.5, -1.0]), min_size=4, max_size=4), min_size=1, max_size=6
)


@given(visits)
def test_dcpo_running_moments_are_the_pooled_ones(rewards):
    """With the population variance and equal visits, of all rewards of the prompt so far."""
    est = bt.estimator("dcpo", ddof=0)
    for row in rewards:
        visit(est, row)
    [[moments]] = est.state_dict()["moments"]
    count, mean, m2 = moments[:3]
    assert count == len(rewards)
    assert mean == pytest.approx(np.mean(rewards))
    assert m2 / count == pytest.approx(np.var(rewards))


def smooth(history, row, eps=1e-6):
    """The recursion of the paper, written down plainly for one prompt."""
    i = len(history) + 1
    mean, variance = 0.0, 0.0
    for k, past in enumerate([*history, row], start=1):
        new, spread = np.mean(past), np.var(past, ddof=1)
        gap = mean - new
        variance = (spread + (k - 1) * variance + (k - 1) / k * gap**2) / k
        mean = (new + (k - 1) * mean) / k
    row = np.array(row)
    fresh = (row - row.mean()) / (row.std(ddof=1) + eps) if np.ptp(row) else 0 * row
    total = (row - mean) / (np.sqrt(variance) + eps) if variance > 1e-15 else 0 * row
    first = ((i - 1) * fresh + total) / i
    second = (fresh + (i - 1) * total) / i
    return np.where(np.abs(first) < np.abs(second), first, second)


@given(visits)
def test_dcpo_against_its_recursion(rewards):
    est = bt.estimator("dcpo")
    for step, row in enumerate(rewards):
        assert visit(est, row) == pytest.approx(smooth(rewards[:step], row), abs=1e-9)


def test_dcpo_on_tied_groups():
    est = bt.estimator("dcpo")
    assert (visit(est, [0.7] * 8) == 0).all()
    assert (visit(est, [0.7] * 8) == 0).all()  # nothing else was ever seen
    visit(est, [1.0] * 4 + [0.7] * 4)
    assert (visit(est, [0.7] * 8) < 0).all()  # it has been better
    assert (visit(est, [0.7] * 8, ids=["other"]) == 0).all()


def test_dcpo_without_prompts_is_grpo():
    est, grpo = bt.estimator("dcpo"), bt.estimator("grpo", eps=1e-6)
    for _ in range(3):
        groups = bt.Groups.from_nested([[1, 0, 1], [1, 1], [0, 1]])
        assert est(groups) == pytest.approx(grpo(groups))


def test_two_groups_of_one_prompt_see_the_same_past():
    est = bt.estimator("dcpo")
    visit(est, [1, 0, 1, 1])
    twice = visit(est, [0] * 4, [0] * 4, ids=["p0", "p0"])
    assert twice[:4].tolist() == twice[4:].tolist()
    assert est.state_dict()["moments"][0][0][0] == 3


def test_spo_by_hand():
    est = bt.estimator("spo", forget=0.5, eps=0)
    # a new prompt starts at weight 1 / (1 - 1/2) = 2 and the batch mean 5/8; both then fade by half
    visit(est, [1, 0, 1, 1], [1, 0, 0, 1])
    value = [(1 * 5 / 8 + 3) / 5, (1 * 5 / 8 + 2) / 5]
    got = visit(est, [0, 0, 0, 0], [1, 1, 1, 1])
    raw = np.repeat([0 - value[0], 1 - value[1]], 4)
    assert got == pytest.approx((raw - raw.mean()) / raw.std(ddof=1))
    assert (got[:4] < 0).all()
    assert (got[4:] > 0).all()
    # faded by half, four more observations
    table = dict(zip(est.state_dict()["prompts"], est.state_dict()["moments"], strict=True))
    assert table["p0"][0][:2] == pytest.approx([5 / 2 + 4, (value[0] * 5 / 2) / (5 / 2 + 4)])


def test_spo_without_prompts_is_the_batch_mean():
    rewards = [[1, 0, 1], [1, 1], [0, 0]]
    plain = bt.estimator("reinforce_pp")(bt.Groups.from_nested(rewards))
    est = bt.estimator("spo")
    for _ in range(2):
        assert est(bt.Groups.from_nested(rewards)) == pytest.approx(plain, abs=1e-6)


def test_a_whole_batch_of_one_reward_gives_nothing():
    est = bt.estimator("spo")
    for _ in range(3):
        assert (visit(est, [0.7] * 8, [0.7] * 8) == 0).all()


def rows(values):
    values = np.array(values, dtype=float)
    one = np.ones(len(values))
    return Rows(one, values, one * 0, values, values)


def test_table_keeps_prompts_apart_and_forgets():
    table = PromptTable((1.0, 0.5))
    first = bt.Groups.from_nested([[1], [2]], prompt_id=["a", ("b", 1)])
    table.learn(first, rows([1, 2]))
    second = bt.Groups.from_nested([[3], [5], [7]], prompt_id=["a", "a", None])
    table.learn(second, rows([3, 5, 7]))
    assert len(table) == 2
    assert table.find(second).mean.tolist() == [3, 3, 0]
    assert table.find(second).count.tolist() == [3, 3, 0]
    assert table.find(second, 1).mean.tolist() == pytest.approx([8.5 / 2.5] * 2 + [0])
    assert table.find(second).low.tolist() == [1, 1, np.inf]
    twin = PromptTable((1.0, 0.5))
    twin.restore(json.loads(json.dumps(table.state())))
    assert twin.find(first).mean.tolist() == [3, 2]
    twin.merge(table)
    assert twin.find(first).count.tolist() == [6, 2]
    assert twin.find(first).mean.tolist() == [3, 2]


def test_table_of_nothing():
    table = PromptTable()
    groups = bt.Groups.from_nested([[1]], prompt_id=["a"])
    table.learn(groups, empty(1))
    assert len(table) == 0
    assert table.find(groups).count.tolist() == [0]
    table.merge(PromptTable())
    assert table.state() == {"prompts": [], "moments": []}


def test_integer_prompts_survive_json():
    est = bt.estimator("dcpo")
    groups = bt.Groups.from_nested([[1, 0], [0, 0]], prompt_id=np.array([7, 9]))
    est(groups)
    twin = bt.estimator("dcpo")
    twin.load_state_dict(json.loads(json.dumps(est.state_dict())))
    assert twin(groups).tolist() == est(groups).tolist()
    assert twin.reading["prompts"] == 2


def test_many_prompts_are_found_in_linear_time():
    est = bt.estimator("dcpo")
    rewards = np.random.default_rng(0).integers(0, 2, (40_000, 4))
    groups = bt.Groups.from_dense(rewards, prompt_id=list(range(40_000)))
    start = time.process_time()
    for _ in range(3):
        est(groups)
    assert time.process_time() - start < 5


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-1, 30), max_size=9), max_size=8))
def test_a_table_that_grows_equals_one_dictionary_per_memory(steps):
    """Over parts of one run, which share their labels, and over batches with their own."""
    fades = (1.0, 0.5)
    draws = np.random.default_rng(len(steps))
    rewards = [draws.normal(size=(len(ids), 3)) for ids in steps]
    ids = [None if one < 0 else f"p{one}" for row in steps for one in row]
    run = bt.Groups.from_dense(
        np.concatenate([np.zeros((0, 3)), *rewards]),
        prompt_id=ids,
        step=[step for step, row in enumerate(steps) for _ in row],
    )
    shared, own, plain = PromptTable(fades), PromptTable(fades), ({}, {})
    for step, row in enumerate(steps):
        names = [None if one < 0 else f"p{one}" for one in row]
        parts = run.select(run.step == step), bt.Groups.from_dense(rewards[step], prompt_id=names)
        for table, groups in zip((shared, own), parts, strict=True):
            for memory, history in enumerate(plain):
                known = table.find(groups, memory)
                for place, name in enumerate(names):
                    weight, values = history.get(name, ([], []))
                    assert known.count[place] == pytest.approx(sum(weight))
                    if weight:
                        mean = np.average(values, weights=weight)
                        m2 = np.dot(weight, (np.array(values) - mean) ** 2)
                        assert known.mean[place] == pytest.approx(mean)
                        assert known.m2[place] == pytest.approx(m2)
                        assert known.low[place] == min(values)
                        assert known.high[place] == max(values)
                    else:
                        assert known.low[place] == np.inf
            table.learn(groups, of_groups(View.of(groups, DEFAULT_TOLERANCE)))
        for history, fade in zip(plain, fades, strict=True):
            for name in {*names} - {None}:
                weight, values = history.get(name, ([], []))
                new = [
                    r
                    for other, r in zip(np.repeat(names, 3), rewards[step].flat, strict=True)
                    if other == name
                ]
                history[name] = ([w * fade for w in weight] + [1.0] * len(new), [*values, *new])
    assert len(shared) == len(own) == len(plain[0])
    assert shared.state()["moments"] == own.state()["moments"]

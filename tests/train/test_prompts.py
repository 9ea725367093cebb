"""The stream of problems: a function of the seed and of what was taken; ways of sampling."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.remedies.registry import create
from buttress.train import dynamic
from buttress.train.prompts import PromptStream

NAMES = [f"p{at}" for at in range(7)]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 3), st.integers(0, 99))
def test_a_stream_goes_on_where_its_state_says(counts, cut, seed):
    whole = PromptStream(NAMES, seed=seed)
    taken = [whole.take(count) for count in counts]
    first = PromptStream(NAMES, seed=seed)
    for count in counts[:cut]:
        first.take(count)
    second = PromptStream(NAMES, seed=seed)
    second.load_state_dict(first.state_dict())
    assert [second.take(count) for count in counts[cut:]] == taken[cut:]
    flat = [*chain.from_iterable(taken)]
    passes = [flat[at : at + 7] for at in range(0, len(flat) - 6, 7)]
    assert all(sorted(one) == list(range(7)) for one in passes)


def test_seeds_and_passes_differ():
    orders = [PromptStream(NAMES, seed=seed).take(14) for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert orders[0][:7] != orders[0][7:]
    with pytest.raises(UsageError, match="no rows"):
        PromptStream([], seed=0)


def groups_of(rewards):
    return Groups.from_nested(list(rewards.values()), prompt_id=list(rewards))


def test_greso_skips_what_keeps_tying_and_resumes():
    stream = PromptStream(NAMES, seed=0, sampling=create("greso"))
    for _ in range(12):
        stream.learn(groups_of({name: [1, 1] if name < "p5" else [0, 1] for name in NAMES}))
    taken = stream.take(200)
    live = sum(NAMES[row] >= "p5" for row in taken)
    assert live > 150
    other = PromptStream(NAMES, seed=0, sampling=create("greso"))
    other.load_state_dict(stream.state_dict())
    assert other.take(50) == stream.take(50)


def test_greso_never_waits_for_ever():
    greso = create("greso", floor=0.0)
    stream = PromptStream(["a"], seed=0, sampling=greso)
    for _ in range(3000):
        stream.learn(groups_of({"a": [1, 1]}))
    assert stream.take(2) == [0, 0]


def test_pools_draw_by_weight_and_say_when_they_are_empty():
    pools = create("difficulty_pools", weights={"easy": 0.0})
    stream = PromptStream(NAMES, seed=0, sampling=pools)
    stream.learn(groups_of({"p0": [1, 1], "p1": [1, 1]}))
    assert sorted(stream.take(5)) == [2, 3, 4, 5, 6]
    with pytest.raises(UsageError, match="hold 5 problems of the 6"):
        stream.take(6)


@pytest.mark.parametrize(
    ("remedy", "options", "said"),
    [
        ("avspo", {}, "depend on the whole batch or on tied groups"),
        ("grpo", {"keep_surplus": True}, "keep_surplus"),
        ("grpo", {"on_limit": "short"}, "full batch"),
        ("grpo", {"wanted": 3}, "leave wanted out"),
    ],
)
def test_what_does_not_go_with_dynamic_sampling(remedy, options, said):
    made = create("dynamic_sampling", **{"wanted": 2, "keep_surplus": False} | options)
    with pytest.raises(UsageError, match=said):
        dynamic.check(made, remedy, 2)

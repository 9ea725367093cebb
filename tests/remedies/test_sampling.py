"""Dynamic sampling, GRESO and difficulty pools."""

import json

import numpy as np
import pytest

from buttress import Groups
from buttress.remedies import create, page


def batch(*rewards, ids=None):
    return Groups.from_nested([list(row) for row in rewards], prompt_id=ids)


def test_dynamic_sampling_fills_the_batch_and_keeps_the_surplus():
    sampler = create("dynamic_sampling", wanted=3, max_batches=5)
    sampler.offer(batch([1, 1], [1, 0], [None, 1], [0]), items="abcd")
    assert not sampler.full
    sampler.offer(batch([0, 1], [1, 0], [1, 0], [0, 0]), items="efgh")
    assert sampler.full
    assert sampler.take() == ["b", "e", "f"]
    assert sampler.reading == {
        "batches": 2,
        "groups": 8,
        "dropped": 4,
        "rollouts": 15,
        "taken": 3,
        "filled": 0,
        "surplus": 1,
        "cost": 15 / 6,
    }
    sampler.offer(batch([1, 0], [1, 0]), items="ij")
    assert sampler.full
    assert sampler.take() == ["g", "i", "j"]
    assert sampler.reading["cost"] == 4 / 6
    assert not sampler.full


def test_dynamic_sampling_hands_back_groups():
    sampler = create("dynamic_sampling", wanted=1)
    sampler.offer(batch([1, 1], [1, 0, 0], ids=["a", "b"]))
    [group] = sampler.take()
    assert group.rewards.tolist() == [1, 0, 0]
    assert group.prompt_id.tolist() == ["b"]


@pytest.mark.parametrize(
    ("on_limit", "taken", "filled"), [("short", ["b"], 0), ("fill", ["b", "c", "d"], 2)]
)
def test_dynamic_sampling_is_bounded(on_limit, taken, filled):
    sampler = create("dynamic_sampling", wanted=3, max_batches=2, on_limit=on_limit)
    sampler.offer(batch([1, 1], [1, 0]), items="ab")
    sampler.offer(batch([1, 1], [0, 0]), items="cd")
    assert sampler.full
    assert sampler.take() == taken
    assert sampler.reading["filled"] == filled


def test_dynamic_sampling_says_why_it_stops():
    sampler = create("dynamic_sampling", wanted=2, max_batches=1)
    sampler.offer(batch([1, 1], [0, 1]))
    with pytest.raises(ValueError, match="gave 1 groups with differing rewards of 2 wanted"):
        sampler.take()
    with pytest.raises(ValueError, match="3 entries for 1 groups"):
        sampler.offer(batch([1, 0]), items="abc")
    with pytest.raises(ValueError, match="wanted"):
        create("dynamic_sampling", wanted=0)


def test_dynamic_sampling_may_throw_the_surplus_away():
    sampler = create("dynamic_sampling", wanted=1, keep_surplus=False)
    sampler.offer(batch([1, 0], [0, 1]), items="ab")
    assert sampler.take() == ["a"]
    assert sampler.reading["surplus"] == 0


def test_cost_is_that_of_independent_prompts():
    draws = np.random.default_rng(0)
    sampler = create("dynamic_sampling", wanted=64, max_batches=10**6)
    costs = []
    for _ in range(200):
        while not sampler.full:
            sampler.offer(Groups.from_dense((draws.random((16, 4)) < 0.1).astype(float)))
        sampler.take()
        costs.append(sampler.reading["cost"])
    assert np.mean(costs) == pytest.approx(1 / (1 - 0.1**4 - 0.9**4), rel=0.03)


def test_greso_by_hand():
    greso = create("greso", rate=0.0)
    ids = ["easy", "hard", "live", "turned"]
    for last in ([1, 1], [1, 1], [0, 1]):
        greso.update(batch([1, 1], [0, 0], [1, 0], last, ids=ids))
    assert greso.probability([*ids, "new"]).tolist() == [0.125, 0.125, 1, 1, 1]
    # the other side starts a new run
    greso.update(batch([0, 0], ids=["easy"]))
    assert greso.probability(["easy"]).tolist() == [0.5]
    for _ in range(20):
        greso.update(batch([1, 1], ids=["easy"]))
    assert greso.probability(["easy"]).tolist() == [0.01]
    chosen = np.mean([greso.choose(["easy", "hard", "live"]) for _ in range(4000)], axis=0)
    assert chosen == pytest.approx([0.01, 0.125, 1.0], abs=0.02)


def test_greso_steers_toward_its_target():
    greso = create("greso")
    for _ in range(100):
        greso.update(batch([1, 1], [0, 1], ids=["a", "b"]))
    assert greso.reading["p_easy"] == 0.05  # half the groups are easy: far too many
    assert greso.reading["p_hard"] == 0.95  # none is hard
    assert greso.reading["easy"] == 0.5


def test_greso_reads_other_levels_and_skips_what_it_cannot_know():
    greso = create("greso", bounds=(-1, 1), rate=0.0)
    greso.update(batch([-1, -1], [1, 1], [None, None], [-1, -1], ids=["a", "b", "c", None]))
    assert greso.probability(["a", "b", "c"]).tolist() == [0.5, 0.5, 1]
    greso.update(batch([None]))
    assert greso.probability(["a"]).tolist() == [0.5]


@pytest.mark.parametrize("name", ["greso", "difficulty_pools"])
def test_state_survives_json(name):
    one, twin = create(name, seed=1), create(name, seed=2)
    for _ in range(3):
        one.update(batch([1, 1], [0, 0], [1, 0], ids=["a", "b", "c"]))
    twin.load_state_dict(json.loads(json.dumps(one.state_dict())))
    prompts = list("abcdefgh")
    for _ in range(5):
        if name == "greso":
            assert one.choose(prompts).tolist() == twin.choose(prompts).tolist()
        else:
            assert one.draw(prompts, 3) == twin.draw(prompts, 3)


def test_pools_by_hand():
    pools = create("difficulty_pools", edges=(0.1, 0.9), forget=0.5)
    pools.update(batch([1, 1], [0, 0], [1, 0], ids=["easy", "hard", "mid"]))
    prompts = ["easy", "hard", "mid", "new"]
    assert pools.pool_of(prompts) == ["easy", "hard", "medium", "unseen"]
    assert pools.sizes(prompts) == {"unseen": 1, "hard": 1, "medium": 1, "easy": 1}
    pools.update(batch([0, 0], ids=["easy"]))
    assert pools.success_rate(["easy"]).tolist() == pytest.approx([1 / 3])  # 0.5 of 1.5 visits
    assert pools.pool_of(["easy"]) == ["medium"]


def test_pools_draw_by_weight_without_repeats():
    pools = create("difficulty_pools", weights={"unseen": 3.0, "medium": 1.0, "easy": 0.0})
    pools.update(batch([1, 0], [1, 1], ids=["mid", "done"]))
    first = [pools.draw(["mid", "new", "done"], 1)[0] for _ in range(4000)]
    assert first.count("new") / 4000 == pytest.approx(0.75, abs=0.03)
    assert "done" not in first
    assert sorted(pools.draw(["mid", "new", "done"], 3)) == ["mid", "new"]
    assert pools.draw([], 3) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("greso", {"p_easy": 0.99}, "p_easy"),
        ("greso", {"range": (0.9, 0.1)}, "range"),
        ("greso", {"rat": 1}, "Did you mean 'rate'"),
        ("difficulty_pools", {"weights": {"medum": 1}}, "pool must be one of"),
        ("difficulty_pools", {"weights": {"medium": -1}}, "weights"),
        ("difficulty_pools", {"edges": 0.5}, "pair"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        create(name, **options)


@pytest.mark.parametrize("name", ["dynamic_sampling", "greso", "difficulty_pools"])
def test_pages(name):
    found = page(name)
    assert found.kind == "sampling"
    assert "arXiv 25" in found.paper
    for part in ("formula", "ties", "cost", "plugs_in", "defaults", "inferred"):
        assert getattr(found, part), part

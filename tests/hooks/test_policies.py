"""Policies: what they accept, when they speak, when they keep quiet, what they do."""

from __future__ import annotations

import json
import logging
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks import Event, Sampling, Switch
from buttress.hooks.monitor.conditions import RULES, Condition
from buttress.hooks.monitor.policies import DEFAULTS, Watch
from buttress.rules.rule import RULES as BOOK
from tests.hooks.monitored_runs import collapsed, mixed, random_batch


def played(policy, values, name="acr"):
    """Return the steps at which a policy acts while a number takes these values."""
    watch = Watch(policy)
    return [
        step
        for step, value in enumerate(values, 1)
        if watch.look(step, lambda _, value=value: value) is not None
    ]


# --- conditions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers", "holds"),
    [
        ("acr > 0.5", {"acr": 0.6}, True),
        ("acr > 0.5", {"acr": 0.5}, False),
        ("acr >= 0.5", {"acr": 0.5}, True),
        ("buttress/acr<=-1e-3", {"acr": -0.1}, True),
        ("acr > 0.5 and reward_mean < 0.1", {"acr": 0.6, "reward_mean": 0.05}, True),
        ("acr > 0.5 and reward_mean < 0.1", {"acr": 0.6, "reward_mean": 0.5}, False),
        ("acr > 0.5", {"acr": math.nan}, None),
        ("acr > 0.5 and reward_mean < 0.1", {"acr": 0.6, "reward_mean": math.nan}, None),
        ("acr > 0.5 and reward_mean < 0.1", {"acr": math.nan, "reward_mean": 0.5}, False),
        ("acr_window/reward/format > 0.9", {"acr_window/reward/format": 1.0}, True),
        ("reading/threshold < 0.2", {"reading/threshold": 0.1}, True),
    ],
)
def test_conditions_are_read_and_judged(text, numbers, holds):
    found, evidence = Condition.parse(text).holds(numbers.__getitem__)
    assert found is holds
    assert evidence.items() <= numbers.items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a condition"),
        (None, "must be a condition"),
        ("acr", "must read like"),
        ("acr == 0.5", "must read like"),
        ("acr > 0.5 or acr < 0.1", "must read like"),
        ("acr > 0.5 and", "must read like"),
        ("acr > high", "which is no number"),
        ("acr > nan", "which nothing is above"),
        ("arc > 0.5", "unknown number 'arc'. Did you mean 'acr'"),
        ("acr_windw > 0.5", "Did you mean 'acr_window'"),
        ("acr/format > 0.5", "unknown number 'acr/format'"),
        ("all-wrong-colapse", "must read like"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Condition.parse(text)


def test_rules_by_name_are_rules_of_the_book():
    assert set(RULES) <= set(BOOK)
    for name in RULES:
        assert bt.Policy(name).name == name


def test_the_end_of_a_state_lies_beyond_its_limit():
    assert str(Condition.parse("acr > 0.5").released) == "acr < 0.45"
    assert str(Condition.parse("reward_mean < -2").released) == "reward_mean > -1.8"
    assert str(Condition.parse("acr > 0").released) == "acr < -0.01"
    both = Condition.parse("acr > 0.5 and reward_mean < 0.1").released
    assert str(both) == "acr < 0.45 or reward_mean > 0.11"
    assert both.holds({"acr": 0.9, "reward_mean": 0.2}.__getitem__)[0]
    assert both.holds({"acr": 0.48, "reward_mean": 0.105}.__getitem__)[0] is False


# --- when --------------------------------------------------------------------------------------


def test_a_state_must_last():
    policy = bt.Policy("acr > 0.5", for_steps=3)
    assert played(policy, [1, 1, 0, 1, 1, 1, 1, 1]) == [6]


def test_one_state_is_one_alert_until_it_has_ended():
    policy = bt.Policy("acr > 0.5", until="acr < 0.2", for_steps=2, cooldown=0, budget=9)
    flicker = [0.6, 0.6, 0.4, 0.6, 0.4, 0.6, 0.3, 0.6] * 5
    assert played(policy, flicker) == [2]
    assert played(policy, [*flicker, 0.1, 0.6, 0.1, 0.1, 0.6, 0.6]) == [2, 46]


def test_an_unknown_number_neither_helps_nor_breaks_a_row():
    policy = bt.Policy("acr > 0.5", for_steps=3)
    assert played(policy, [1, math.nan, 1, math.nan, math.nan, 1]) == [6]
    assert played(policy, [1, 1, math.nan, math.nan, math.nan]) == []


def test_cooldown_and_budget():
    values = [1, 0] * 100
    once = bt.Policy("acr > 0.5", for_steps=1, cooldown=30, budget=3)
    assert played(once, values) == [1, 31, 61]
    assert len(played(bt.Policy("acr > 0.5", for_steps=1, cooldown=0, budget=100), values)) == 100


def test_parts_of_one_step_count_as_one():
    watch = Watch(bt.Policy("acr > 0.5", for_steps=2))
    assert watch.look(1, lambda _: 1.0) is None
    assert watch.look(1, lambda _: 1.0) is None
    assert watch.look(2, lambda _: 0.0) is None  # the first part of step 2 is well
    assert watch.look(2, lambda _: 1.0) == {"acr": 1.0}  # all of it is not


@given(st.lists(st.floats(0, 1), max_size=200), st.integers(1, 9), st.integers(1, 5))
def test_no_storm_whatever_the_numbers_do(values, for_steps, budget):
    policy = bt.Policy("acr > 0.5", for_steps=for_steps, cooldown=7, budget=budget)
    acted = played(policy, values)
    assert len(acted) <= budget
    assert all(later - earlier >= 7 for earlier, later in pairwise(acted))
    for step in acted:
        assert min(values[step - for_steps : step]) > 0.5


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.integers(0, 59))
def test_a_restored_policy_goes_on_as_if_nothing_had_happened(values, cut):
    policy = bt.Policy("acr > 0.5", for_steps=2, cooldown=5)
    cut = min(cut, len(values))
    first = Watch(policy)
    acted = []

    def feed(watch, steps):
        acted.extend(
            step
            for step in steps
            if watch.look(step, lambda _, step=step: values[step]) is not None
        )

    feed(first, range(cut))
    second = Watch(policy)
    second.restore(json.loads(json.dumps(first.state())))
    feed(second, range(cut, len(values)))
    assert [step + 1 for step in acted] == played(policy, values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"when": "acr > 0.5", "for_steps": 0}, "for_steps must be"),
        ({"when": "acr > 0.5", "for_steps": 2.5}, "for_steps must be"),
        ({"when": "acr > 0.5", "cooldown": -1}, "cooldown must be"),
        ({"when": "acr > 0.5", "budget": 0}, "budget must be"),
        ({"when": "acr > 0.5", "then": "explode"}, "then must be 'log', 'warn', 'stop'"),
        ({"when": "acr > 0.5", "then": ()}, "then is empty"),
        ({"when": "acr > 0.5", "then": Switch}, "then must be"),
        ({"when": "acr > 0.5", "until": "acr"}, "until must read like"),
        ({"when": "acr > 0.5", "name": 3}, "name of a policy must be a text"),
    ],
)
def test_a_wrong_policy_fails_at_construction(arguments, message):
    with pytest.raises(UsageError, match=message):
        bt.Policy(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Switch("avsop"), "Did you mean 'avspo'"),
        (lambda: Switch("avspo", {"treshold": 0.3}), "threshold"),
        (lambda: Switch("dapo"), "is a loss remedy"),
        (lambda: Sampling(), "needs temperature= or top_p="),
        (lambda: Sampling(temperature=0), "temperature must be"),
        (lambda: Sampling(top_p=1.5), "top_p must be"),
    ],
)
def test_a_wrong_action_fails_at_construction(make, message):
    with pytest.raises(UsageError, match=message):
        make()


# --- in a monitor ------------------------------------------------------------------------------


def test_each_action_is_written_to_the_log_with_its_evidence(caplog):
    called = []
    policies = [
        bt.Policy("acr > 0.5", ("log", "warn", called.append), for_steps=2, name="dead"),
        bt.Policy("acr_window > 0.9 and reward_mean < 0.1", "stop", for_steps=4),
    ]
    monitor = bt.Monitor(policies=policies, warmup=0)
    with caplog.at_level(logging.INFO):
        for step in range(1, 6):
            monitor.update(collapsed(), step=step)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("INFO", "step 2: dead: acr > 0.5 for 2 steps; log (acr 1)"),
        ("WARNING", "step 2: dead: acr > 0.5 for 2 steps; warn (acr 1)"),
        ("WARNING", "step 2: dead: acr > 0.5 for 2 steps; call (acr 1)"),
        (
            "WARNING",
            "step 4: acr_window > 0.9 and reward_mean < 0.1 for 4 steps; stop "
            "(acr_window 1, reward_mean 0)",
        ),
    ]
    assert called == [monitor.events[2]]
    assert isinstance(called[0], Event)
    assert monitor.stop_requested == monitor.events[3]
    assert [request for _, request in monitor.requests()] == ["stop"]
    assert monitor.requests() == []
    assert monitor.metrics()["buttress/alerts"] == 2


def test_a_function_that_raises_is_one_warning(caplog):
    def explode(event):
        raise RuntimeError("no")

    monitor = bt.Monitor(policies=[bt.Policy("acr > 0.5", explode, for_steps=1)], warmup=0)
    monitor.update(collapsed(), step=1)
    monitor.update(collapsed(), step=2)
    assert caplog.text.count("RuntimeError: no") == 1
    assert monitor.metrics()["buttress/acr_run"] == 1.0


def test_nothing_is_said_during_the_warm_up():
    monitor = bt.Monitor(policies=[bt.Policy("acr > 0.5", for_steps=1)], warmup=30)
    for step in range(1, 31):
        monitor.update(collapsed(), step=step)
    assert monitor.events == []
    monitor.update(collapsed(), step=31)
    assert [event.step for event in monitor.events] == [31]


def test_requests_carry_what_is_wanted():
    wanted = (Switch("avspo", {"threshold": 0.3}), Sampling(temperature=1.2))
    monitor = bt.Monitor(policies=[bt.Policy("acr > 0.5", wanted, for_steps=1)], warmup=0)
    monitor.update(collapsed(), step=1)
    assert [request for _, request in monitor.requests()] == list(wanted)
    assert monitor.events[0].message.endswith("switch to avspo")
    assert monitor.events[1].message.endswith("sample with temperature 1.2")


def test_readings_can_be_waited_for():
    monitor = bt.Monitor(policies=[bt.Policy("reading/K > 2", for_steps=1)], warmup=0)
    monitor.update(mixed(), step=1)
    monitor.update(mixed(), step=2, reading={"K": 3})
    assert [event.evidence for event in monitor.events] == [{"reading/K": 3.0}]


def test_policies_survive_a_restart():
    def monitor():
        return bt.Monitor(policies=[bt.Policy("acr > 0.5", for_steps=4)], warmup=0)

    first, second = monitor(), monitor()
    for step in range(1, 4):
        first.update(collapsed(), step=step)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.update(collapsed(), step=4)
    assert [event.step for event in second.events] == [4]
    third = monitor()
    third.load_state_dict(json.loads(json.dumps(second.state_dict())))
    third.update(collapsed(), step=5)
    assert third.events == second.events


# --- what a monitor says by itself ---------------------------------------------------------------


def told(batches):
    monitor = bt.Monitor()
    for step, groups in enumerate(batches, 1):
        monitor.update(groups, step=step)
    return [event.policy for event in monitor.events]


def learning(rate_at):
    """200 steps of 8 groups of 8 whose success rate is a function of the step."""
    draws = np.random.default_rng(5)
    for step in range(200):
        rewards = (draws.random((8, 8)) < rate_at(step)).astype(float)
        yield Groups.from_dense(rewards, correct=rewards)


@pytest.mark.parametrize(
    "rate_at",
    [
        lambda step: 0.4,
        lambda step: 0.1 + step / 250,  # learns
        lambda step: min(1.0, 0.3 + step / 100),  # masters its prompts
        lambda step: 0.02 + 0.5 * (step > 25),  # a hard start
        lambda step: 0.0 if step % 40 == 0 else 0.5,  # a bad step now and then
    ],
    ids=["steady", "learns", "masters", "hard start", "bad steps"],
)
def test_normal_states_are_no_alarm(rate_at):
    assert told(learning(rate_at)) == []


def test_a_usual_curriculum_is_no_alarm():
    draws = np.random.default_rng(6)
    assert told(random_batch(draws, n_groups=64) for _ in range(200)) == []


def test_a_dead_run_is_one_alarm():
    assert told(learning(lambda step: 0.0)) == ["all-wrong-collapse"]


def test_a_capped_run_is_told_so_first():
    cut = np.ones((8, 4), dtype=bool)
    events = told(collapsed(truncated=cut) for _ in range(200))
    assert events == ["truncation-collapse", "all-wrong-collapse"]


def test_correctness_that_is_dead_under_a_live_format_reward():
    draws = np.random.default_rng(7)

    def batches():
        for _ in range(200):
            style = draws.integers(0, 2, (8, 8)) * 0.1
            yield Groups.from_dense(style, correct=np.zeros((8, 8)), **{"reward/format": style})

    assert told(batches()) == ["component-collapse"]


def test_rewards_that_are_missing():
    rows = [[1, 0, None, None]] * 8
    assert told(Groups.from_nested(rows) for _ in range(60)) == ["unscorable-rewards"]


def test_the_defaults_only_warn():
    assert all(policy.actions == ("warn",) for policy in DEFAULTS)

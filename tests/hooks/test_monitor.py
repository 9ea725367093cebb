"""`Monitor`: the same numbers as the measures, over steps, ranks, restarts and faults."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.monitor.ledger import BLOCK
from buttress.measures import (
    ComponentCounts,
    Composition,
    SignalCounts,
    collapse_rate,
    prompt_counts,
)
from buttress.measures.statistics import ratio
from buttress.remedies import estimator
from tests.hooks.monitored_runs import collapsed, mixed, random_batch, runs, same


def fed(run, **settings):
    monitor = bt.Monitor(policies=[], **settings)
    for step, groups in run:
        monitor.update(groups, step=step)
    return monitor


def number(monitor, name):
    return monitor.metrics()[f"buttress/{name}"]


# --- the numbers -------------------------------------------------------------------------------


def expected(batches):
    """The measures, added up batch by batch."""
    total = Composition.of(Groups.from_nested([]))
    signal = SignalCounts.of(Groups.from_nested([]))
    components = ComponentCounts()
    for groups in batches:
        total, signal = total + Composition.of(groups), signal + SignalCounts.of(groups)
        components = components + ComponentCounts.of(groups)
    return total, signal, components


@given(runs())
@settings(max_examples=60, deadline=None)
def test_numbers_of_the_window_are_those_of_the_measures(run):
    monitor = fed(run)
    total, signal, components = expected(groups for _, groups in run)
    counts = total.counts()
    eligible = counts.tied + counts.mixed
    found = monitor.metrics()
    for name in ("all_wrong", "all_correct", "tied_between", "near_tied"):
        np.testing.assert_equal(
            found[f"buttress/{name}_window"], ratio(getattr(counts, name), eligible)
        )
    np.testing.assert_equal(found["buttress/acr_run"], ratio(counts.tied, eligible))
    np.testing.assert_equal(found["buttress/acr_window"], found["buttress/acr_run"])
    np.testing.assert_equal(found["buttress/acr_early"], found["buttress/acr_run"])
    np.testing.assert_equal(found["buttress/effective_batch_window"], signal.effective_batch)
    np.testing.assert_equal(
        found["buttress/unscorable_share_window"], ratio(signal.unscorable, signal.rollouts)
    )
    tokens = math.nan if signal.tokens_wasted is None else signal.tokens_wasted
    np.testing.assert_equal(found["buttress/wasted_tokens"], float(tokens))
    for name, rate in components.rates.items():
        if name != "reward":
            np.testing.assert_equal(monitor._counting.readout.value(f"acr_window/{name}"), rate)


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_last_step_is_judged_by_all_its_parts(run):
    monitor = fed(run)
    last = run[-1][0]
    total, signal, _ = expected(groups for step, groups in run if step == last)
    counts = total.counts()
    np.testing.assert_equal(number(monitor, "acr"), ratio(counts.tied, counts.tied + counts.mixed))
    np.testing.assert_equal(number(monitor, "effective_batch"), signal.effective_batch)


def test_prompts_are_those_of_the_measure():
    draws = np.random.default_rng(1)
    batches = [random_batch(draws) for _ in range(40)]
    table = fed(enumerate(batches, 1)).prompts()
    everything = Groups.from_nested(
        [row for one in batches for row in np.split(one.rewards, one.offsets[1:-1])],
        prompt_id=[name for one in batches for name in one.prompt_id],
    )
    want = prompt_counts(everything)
    numbers = zip(want.tries, want.successes, want.tied, strict=True)
    rows = dict(zip(want.prompt_id, numbers, strict=True))
    for at, name in enumerate(table.prompt_id):
        assert rows.pop(name) == (table.tries[at], table.successes[at], table.tied[at])
    assert not rows


def test_prompt_shares_and_their_number():
    rows = [[0, 0], [1, 1], [0, 1], [None, None]]
    monitor = fed([(1, Groups.from_nested(rows, prompt_id=list("abcd")))])
    assert number(monitor, "prompts") == 4
    assert number(monitor, "prompts_unsolved") == 1 / 3
    assert number(monitor, "prompts_solved") == 1 / 3


def test_windows_and_the_early_rate_cover_the_steps_they_say():
    monitor = fed([*((step, collapsed()) for step in range(1, 101)), (101, mixed())], window=40)
    assert number(monitor, "acr") == 0.0
    assert number(monitor, "acr_early") == 1.0
    assert number(monitor, "acr_run") == 100 / 101
    assert number(monitor, "acr_window") == 20 / 21  # a full block of twenty and one of one step
    for step in range(102, 400):
        monitor.update(mixed(), step=step)
    assert number(monitor, "acr_early") == 1.0
    assert number(monitor, "acr_window") == 0.0
    assert number(monitor, "acr_run") == 100 / 399


def test_a_run_that_is_joined_late_has_no_early_rate():
    assert math.isnan(number(fed([(500, collapsed())]), "acr_early"))


def test_nothing_is_known_of_an_empty_run():
    found = bt.Monitor().metrics()
    unknown = {name for name, value in found.items() if math.isnan(value)}
    assert set(found) - unknown == {
        "buttress/prompts",
        "buttress/alerts",
        "buttress/sink_rows_lost",
    }


def test_acr_after_is_read_off_the_advantages():
    groups = Groups.from_nested([[0, 0], [0, 1], [1, 1]], advantage=[[1, 0], [0, 0], [0, 0]])
    assert number(fed([(1, groups)]), "acr_after") == 2 / 3


def test_truncation_of_tied_groups():
    cut = [[1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    rewards = [[0] * 5, [0] * 5, [0, 0, 0, 0, 1]]
    monitor = fed([(1, Groups.from_nested(rewards, truncated=np.array(cut) > 0))])
    assert number(monitor, "truncated") == 11 / 15
    assert monitor._counting.readout.value("truncated_ties") == 0.5


def test_the_reading_of_an_estimator_has_its_own_names():
    monitor, est = bt.Monitor(policies=[]), estimator("avspo")
    groups = Groups.from_nested([[0, 0], [1, 0]])
    est(groups)
    monitor.update(groups, step=1, reading=est)
    assert number(monitor, "threshold") == 0.5
    assert {"buttress/triggered", "buttress/K"} <= set(monitor.metrics())
    monitor.update(groups, step=2, reading={"threshold": 0.25, "note": "text"})
    assert number(monitor, "threshold") == 0.25


def test_steps_may_come_from_the_groups():
    groups = Groups.from_nested([[1, 1], [0, 1], [0, 0]], step=[1, 2, 2])
    monitor = bt.Monitor()
    monitor.update(groups)
    assert monitor.last_step == 2
    assert number(monitor, "acr") == 0.5
    assert number(monitor, "acr_run") == 2 / 3


def test_torch_rewards_and_an_estimator_before_it():
    torch = pytest.importorskip("torch")
    rewards = torch.tensor([[0.7] * 8, [0.0, 1.0] * 4])
    groups = Groups.from_dense(rewards)
    estimator("grpo")(groups)
    assert number(fed([(1, groups)]), "acr") == collapse_rate(groups) == 0.5


def test_arrays_may_be_written_to_again_after_the_update():
    rewards, lengths = np.zeros((4, 2)), np.full((4, 2), 5)
    monitor = bt.Monitor(policies=[])
    for step in range(1, 5):
        rewards[:, 0], lengths[:] = step % 2, step
        monitor.update(Groups.from_dense(rewards, length=lengths, prompt_id=range(4)), step=step)
    assert number(monitor, "acr_run") == 0.5
    assert number(monitor, "wasted_tokens") == 8 * (2 + 4)
    assert monitor.prompts().successes.tolist() == [2.0] * 4


# --- ranks --------------------------------------------------------------------------------------


@given(runs(steps=400), st.lists(st.integers(0, 2), min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_ranks_add_up_to_one_monitor(run, ranks):
    """Whole groups, and parts of one step, spread over three ranks in any way."""
    alone = fed(run, window=40)
    parts = [
        fed([one for one, owner in zip(run, ranks, strict=False) if owner == rank], window=40)
        for rank in range(3)
    ]
    for merged in (parts[0] + parts[1] + parts[2], parts[2] + (parts[1] + parts[0])):
        same(merged.metrics(), alone.metrics())
        assert merged.last_step == alone.last_step
        tables = (
            {name: row for name, *row in zip(*one.prompts(), strict=True)}
            for one in (merged, alone)
        )
        assert next(tables) == next(tables)


def test_a_merged_monitor_goes_on():
    run = [(step, collapsed() if step % 3 else mixed()) for step in range(1, 40)]
    merged = fed(run[:20:2]) + fed(run[1:20:2])
    for step, groups in run[20:]:
        merged.update(groups, step=step)
    same(merged.metrics(), fed(run).metrics())


def test_monitors_that_count_differently_do_not_merge():
    with pytest.raises(UsageError, match="window=40"):
        bt.Monitor().merge(bt.Monitor(window=40))
    with pytest.raises(UsageError, match="max_prompts"):
        bt.Monitor(max_prompts=5).merge(bt.Monitor())
    with pytest.raises(UsageError, match="cannot merge dict"):
        bt.Monitor().merge({})


# --- restarts -----------------------------------------------------------------------------------


@given(runs(steps=400), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_a_restored_monitor_ends_where_the_uninterrupted_one_does(run, cut):
    """Steps after the checkpoint come once more; those of before it are not counted again."""
    whole = fed(run, window=40)
    steps = sorted({step for step, _ in run})
    saved = steps[: cut % (len(steps) + 1)]
    first = fed([one for one in run if one[0] in saved], window=40)
    resumed = bt.Monitor(policies=[], window=40)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    same(resumed.metrics(), first.metrics())
    for step, groups in run:
        resumed.update(groups, step=step)
    same(resumed.metrics(), whole.metrics())


def test_a_step_that_is_over_is_not_counted_twice(caplog):
    monitor = fed([(1, mixed()), (2, mixed())])
    with caplog.at_level(logging.WARNING):
        for step in (1, 1, 2):
            monitor.update(collapsed(), step=step)
    assert number(monitor, "acr_run") == 8 / 24  # only step 2 may still grow
    assert [record.message.count("step 1 again") for record in caplog.records] == [1]


@pytest.mark.parametrize(
    "state", [None, {}, {"schema": 2}, {"schema": 1}, {"schema": 1, "ledger": 3, "reading": {}}]
)
def test_a_foreign_state_is_refused_and_changes_nothing(state):
    monitor = fed([(1, collapsed())])
    with pytest.raises(UsageError, match="state"):
        monitor.load_state_dict(state)
    assert number(monitor, "acr_run") == 1.0


def test_every_cut_of_a_state_is_refused_or_whole():
    """A state that lost an entry anywhere is a `UsageError`, never anything else."""
    whole = fed([(step, mixed(prompt_id=range(8))) for step in (1, 200, 900)]).state_dict()
    for path in list(_paths(whole)):
        damaged = json.loads(json.dumps(whole))
        part = damaged
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = "damage"
        with contextlib.suppress(UsageError):
            bt.Monitor(policies=[]).load_state_dict(damaged)


def _paths(thing, before=()):
    pairs = thing.items() if isinstance(thing, dict) else enumerate(thing)
    for key, value in pairs:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*before, key))


# --- memory -------------------------------------------------------------------------------------


def test_too_many_prompts_leave_a_fair_and_complete_sample():
    draws = np.random.default_rng(2)
    names = [f"prompt {number}" for number in range(2000)]
    order = [draws.permutation(2000) for _ in range(3)]
    run = []
    for rows in order:
        for part in np.split(rows, 20):
            rewards = np.repeat((part % 4 == 0)[:, None], 2, axis=1).astype(float)
            run.append(Groups.from_dense(rewards, prompt_id=[names[at] for at in part]))
    monitor = fed(enumerate(run, 1), max_prompts=400)
    table = monitor.prompts()
    assert len(table.prompt_id) == 400
    assert (table.groups == 3).all()
    assert (table.tries == 6).all()
    assert number(monitor, "prompts") == pytest.approx(2000, rel=0.2)
    assert number(monitor, "prompts_solved") == pytest.approx(0.25, abs=0.07)
    ranks = [fed(list(enumerate(run, 1))[rank::2], max_prompts=400) for rank in (0, 1)]
    same((ranks[0] + ranks[1]).metrics(), monitor.metrics())
    again = bt.Monitor(policies=[], max_prompts=400)
    again.load_state_dict(json.loads(json.dumps(monitor.state_dict())))
    same(again.metrics(), monitor.metrics())


def test_rewards_of_many_levels_take_no_more_memory_than_few():
    """Near ties are then known to two digits of the range."""
    draws = np.random.default_rng(3)
    batches = [Groups.from_dense(draws.random((64, 4)) ** 4) for _ in range(200)]
    monitor = fed(enumerate(batches, 1))
    size = len(json.dumps(monitor.state_dict()))
    for step, groups in enumerate(batches, 201):
        monitor.update(groups, step=step)
    assert len(json.dumps(monitor.state_dict())) < 1.5 * size
    exact, _, _ = expected(batches * 2)
    run = monitor._counting.readout.value("near_tied_run")
    assert run == pytest.approx(exact.counts().near_tied / (400 * 64), rel=0.1)
    assert 0 < run < 1


def test_a_long_run_takes_flat_memory():
    """A day of steps in small: what is held after 8,000 is what was held after 1,000."""
    draws = np.random.default_rng(4)
    batches = [random_batch(draws) for _ in range(97)]
    monitor = bt.Monitor(total_steps=10**6)
    objects, sizes = [], []
    for step in range(1, 8_001):
        monitor.update(batches[step % 97], step=step)
        if step in (1_000, 8_000):
            sizes.append(len(json.dumps(monitor.state_dict())))
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert sizes[1] < 1.1 * sizes[0]
    assert objects[1] < objects[0] + 500


def test_no_text_is_kept():
    text = "x" * 1_000_000
    monitor = fed([(1, Groups.from_nested([[1, 0]], completion=[[text, text]]))])
    assert sys.getsizeof(json.dumps(monitor.state_dict())) < 10_000
    assert all("completion" not in part.columns for part in monitor._counting.ledger._waiting)


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, [[1, 0]], "text", 3])
def test_a_wrong_batch_is_one_warning(groups, caplog):
    monitor = bt.Monitor()
    with caplog.at_level(logging.WARNING):
        for step in range(1, 4):
            monitor.update(groups, step=step)
        monitor.update(mixed(), step=4)
    assert len(caplog.records) == 1
    assert "could not update its monitor" in caplog.text
    assert number(monitor, "acr") == 0.0


def test_a_fault_while_counting_is_one_warning_and_the_run_goes_on(caplog):
    monitor = bt.Monitor()
    bad = Groups.from_nested([[1, 0]], length=[["a", "b"]])
    with caplog.at_level(logging.WARNING):
        for step in range(1, 3 * BLOCK):
            monitor.update(bad if step == 3 else mixed(), step=step)
        found = monitor.metrics()
    assert len(caplog.records) == 1
    assert found["buttress/acr_run"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 30}, "window must be a multiple of 20"),
        ({"window": 0}, "window must be an integer"),
        ({"warmup": -1}, "warmup must be"),
        ({"max_prompts": 1}, "max_prompts must be"),
        ({"total_steps": 0}, "total_steps must be"),
        ({"tolerance": 1e-3}, "tolerance must be a Tolerance"),
        ({"policies": "acr > 0.5"}, "policies must be a list of Policy"),
        ({"policies": ["acr > 0.5"]}, "policies must be a list of Policy"),
        ({"policies": [bt.Policy("acr > 0.5"), bt.Policy("acr > 0.5")]}, "give one of them a name"),
        ({"sinks": ["run.jsonl"]}, "a sink is an object with write"),
        ({"sinks": [dict]}, "a sink is an object with write"),
    ],
)
def test_a_wrong_configuration_fails_at_construction(arguments, message):
    with pytest.raises(UsageError, match=message):
        bt.Monitor(**arguments)

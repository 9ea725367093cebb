"""Dynamic sampling that runs into its limit, seen in rollouts and in the trainer's counter."""

from __future__ import annotations

import numpy as np
import pytest

from buttress.groups import Groups, LogFacts, Run
from buttress.rules import Severity
from tests.rules.runs import HEALTHY, names, of, scalar, scalars, the

RULE = "resampling-stall"
A13 = {"live_groups": 32, "generation_batch": 48, "max_generation_batches": 10}


def run(live, seen=48, steps=1, **facts):
    rewards = [[0, 1, 0, 1] if place < live else [0] * 4 for place in range(seen)] * steps
    step = np.repeat(np.arange(1, steps + 1), seen)
    return Run(Groups.from_nested(rewards, step=step), facts=LogFacts(**(A13 | facts)))


def test_a13():
    found = the(run(3), RULE)
    assert found.evidence["batches"] == 11
    assert found.evidence["limit"] == 10
    low, high = found.evidence["batches_interval"]
    assert low < 11 < high
    assert found.severity is Severity.WARNING
    assert found.message == (
        "an update needs 32 groups with a signal and 3 of the latest 48 have one: about 11 "
        "(95 %: 4 to 32) generation batches of 48 prompts against a limit of 10; one of the next "
        "10 updates stalls with a chance of 69%"
    )
    assert found.steps == (1, 1)


@pytest.mark.parametrize(
    ("live", "severity"),
    [(0, Severity.ERROR), (1, Severity.ERROR), (3, Severity.WARNING), (6, Severity.INFO)],
)
def test_how_bad_follows_from_the_chance_of_a_stall(live, severity):
    assert the(run(live), RULE).severity is severity


@pytest.mark.parametrize("live", [9, 24, 48])
def test_silent_where_the_batches_suffice(live):
    assert RULE not in names(run(live))


def test_more_evidence_settles_it():
    assert the(run(2), RULE).severity is Severity.WARNING
    assert the(run(2, steps=40), RULE).severity is Severity.ERROR
    assert RULE not in names(run(7, steps=40))


def test_the_latest_steps_count():
    early, late = [[0, 1]] * 48 * 20, ([[0, 1]] * 2 + [[0, 0]] * 46) * 20
    step = np.repeat(np.arange(40), 48)
    fading = Run(Groups.from_nested([*early, *late], step=step), facts=LogFacts(**A13))
    assert the(fading, RULE).steps[0] >= 20
    growing = Run(Groups.from_nested([*late, *early], step=step), facts=LogFacts(**A13))
    assert RULE not in names(growing)


@pytest.mark.parametrize("missing", ["live_groups", "max_generation_batches"])
def test_silent_without_the_settings(missing):
    assert RULE not in names(run(0, **{missing: None}))


def test_settings_that_are_logged_as_metrics():
    logged = scalars(train_batch_size=[32], gen_batch_size=[48], max_num_gen_batches=[10])
    rewards = run(3).groups
    assert the(Run(rewards, logged), RULE).evidence["batches"] == 11


def counter(batches, limit=10):
    batches = np.asarray(batches, dtype=float)
    return Run(
        Groups.from_nested([]),
        {"num_gen_batches": scalar(batches)},
        facts=LogFacts(max_generation_batches=limit),
    )


def test_a_growing_counter_is_carried_on():
    rng = np.random.default_rng(0)
    found = the(counter(2 * np.exp(0.03 * np.arange(40)) + rng.normal(0, 0.2, 40)), RULE)
    low, high = found.evidence["steps_to_limit_interval"]
    truth = np.log(10 / 2) / 0.03 - 39
    assert low <= truth <= high
    assert found.severity is Severity.WARNING


def test_a_counter_at_its_limit():
    found = the(counter([4, 5, 10, 10, 10, 9, 10, 10, 10, 10]), RULE)
    assert found.severity is Severity.ERROR
    assert found.evidence["updates_at_limit"] == 7


@pytest.mark.parametrize("seed", range(8))
def test_silent_on_a_steady_counter(seed):
    rng = np.random.default_rng(seed)
    assert of(counter(rng.integers(1, 5, 60)), RULE) == []
    assert of(counter(np.ones(60)), RULE) == []


@pytest.mark.parametrize("kind", ["early", "large groups", "few nulls"])
def test_healthy_runs_under_a_limit_are_left_alone(kind):
    healthy = HEALTHY[kind]()
    assert RULE not in names(Run(healthy.groups, healthy.scalars, facts=LogFacts(**A13)))

"""The first steps carried on: coverage on simulated runs, oracles for the line and the stall."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.measures.forecast import Trend, carry_on, learn_line, steps_to_stall


def expit(odds):
    return 1 / (1 + np.exp(-odds))


COURSES = {
    "flat": lambda t: expit(0 * t - 0.5),
    "rising": lambda t: expit(-2.5 + 0.06 * t),
    "falling": lambda t: expit(1.5 - 0.08 * t),
    "nearly none": lambda t: expit(0 * t - 5),
}


@pytest.mark.parametrize("name", sorted(COURSES))
@pytest.mark.parametrize("prompts_alike", [True, False])
def test_the_interval_covers_what_comes(name, prompts_alike):
    rng = np.random.default_rng(3)
    truth, inside = COURSES[name](np.arange(60)), 0
    for _ in range(100):
        # steps scatter more than a coin where prompts differ between them
        scatter = 0 if prompts_alike else rng.normal(0, 0.4, 60)
        rate = expit(np.log(truth / (1 - truth)) + scatter)
        tied = rng.binomial(32, rate)
        trend = carry_on(tied[:30], np.full(30, 32))
        low, high = np.quantile(trend.ahead.mean(axis=1), [0.025, 0.975])
        inside += low <= truth[30:].mean() <= high
    assert inside >= 86


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=40))
def test_any_steps_give_rates(steps):
    tied = np.array([min(one) for one in steps])
    eligible = np.array([max(one) for one in steps])
    trend = carry_on(tied, eligible)
    if (eligible > 0).sum() < 3:
        assert trend is None
        return
    assert ((trend.ahead >= 0) & (trend.ahead <= 1)).all()
    assert trend.ahead.shape[1] == len(steps)


@pytest.mark.parametrize("always", [0, 16])
def test_all_or_nothing_is_not_taken_for_certain(always):
    trend = carry_on(np.full(12, always), np.full(12, 16))
    mean = trend.ahead.mean(axis=1)
    assert 0 < np.quantile(mean, 0.975) - np.quantile(mean, 0.025) < 0.5


def test_too_few_steps_and_uneven_series():
    assert carry_on([1, 2], [4, 4]) is None
    with pytest.raises(UsageError, match="one length"):
        carry_on([1, 2, 3], [4, 4])


def stall_by_loop(course, seen, limit, length):
    run = 0
    for step, rate in enumerate(course):
        run = run + 1 if rate > limit else 0
        if run > length:
            return max(step + 1 - seen, 0)
    return np.inf


@given(st.lists(st.booleans(), min_size=2, max_size=60), st.integers(0, 10), st.data())
def test_steps_to_stall_by_a_loop(above, length, data):
    seen = data.draw(st.integers(1, len(above) - 1))
    course = np.where(above, 0.9, 0.1)
    trend = Trend(course[None, :seen], course[None, seen:])
    assert steps_to_stall(trend, 0.35, length)[0] == stall_by_loop(course, seen, 0.35, length)


def test_own_line_against_scipy():
    from scipy.stats import linregress

    rng = np.random.default_rng(0)
    early = rng.uniform(0, 0.8, 12)
    final = 0.6 - 0.4 * early + rng.normal(0, 0.03, 12)
    line, theirs = learn_line(early, final), linregress(early, final)
    assert line.slope == pytest.approx(theirs.slope)
    assert line.intercept == pytest.approx(theirs.intercept)
    assert line.correlation == pytest.approx(theirs.rvalue)
    assert line.runs == 12


def test_the_prediction_interval_covers_new_runs():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        early = rng.uniform(0, 0.8, 8)
        line = learn_line(early[:7], 0.6 - 0.4 * early[:7] + rng.normal(0, 0.05, 7))
        _, low, high = line.predict(early[7])
        inside += low <= 0.6 - 0.4 * early[7] + rng.normal(0, 0.05) <= high
    assert 270 <= inside <= 297


@pytest.mark.parametrize("early", [[], [0.1] * 4, [0.2] * 6, [np.nan] * 9])
def test_no_line_from_too_little(early):
    assert learn_line(early, np.arange(len(early))) is None

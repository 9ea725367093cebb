"""What the first steps foretell, on simulated runs that stall, recover, master or are dead."""

from __future__ import annotations

import numpy as np
import pytest

from buttress.groups import Groups, LogFacts, Run
from buttress.measures.forecast import learn_line
from buttress.rules import Case, Severity, examine
from tests.rules.runs import HEALTHY, binary, names, of, steps_of, the

RULE = "early-forecast"


def run(rate, steps, per_step=16, seed=0, prompts=None):
    rng = np.random.default_rng(seed)
    step = steps_of(per_step * steps, steps)
    outcome = binary(rng, rate(rng, step))
    ids = None if prompts is None else np.arange(len(step)) % prompts
    return Groups.from_dense(outcome, step=step, prompt_id=ids)


def fading(rng, step):
    return np.clip(0.5 - 0.012 * step, 0.01, 1)


def half_dead(rng, step):
    return np.where(rng.random(len(step)) < 0.5, 0.0, 0.4)


def test_a_stall_that_is_still_ahead():
    found = the(run(fading, 40), RULE)
    assert found.severity is Severity.WARNING
    evidence = found.evidence
    assert evidence["stall_chance"] > 0.95
    low, high = evidence["steps_to_stall_interval"]
    assert 30 <= low <= evidence["steps_to_stall"] <= high <= 50
    low, high = evidence["wasted_ahead_interval"]
    assert low <= evidence["wasted_ahead"] <= high <= 40 * 16 * 8
    assert "line through the log odds" in evidence["model"]
    assert "not portable" in evidence["background"]
    assert found.message.startswith("the first 40 steps foretell an ACR of ")
    assert "a stall in " in found.message


def test_what_was_foretold_came():
    """The forecast from the first steps holds what the same process does next."""
    inside = 0
    for seed in range(12):
        whole = run(fading, 80, seed=seed)
        early = whole.select(whole.step <= 40)
        low, high = the(early, RULE).evidence["acr_ahead_interval"]
        late = Case(Run(whole)).steps
        inside += low - 0.03 <= np.mean(late.acr[40:]) <= high + 0.03
    assert inside >= 10


@pytest.mark.parametrize("prompts", [None, 200])
def test_prompts_that_never_mix(prompts):
    def dead(rng, step):
        if prompts is None:
            return half_dead(rng, step)
        return np.where(np.arange(len(step)) % prompts < prompts / 2, 0.0, 0.4)

    found = the(run(dead, 40, prompts=prompts), RULE)
    low, high = found.evidence["never_mix_interval"]
    assert low < 0.5 < high
    assert high - low < 0.25
    assert "will never mix" in found.message


def test_a_log_that_goes_on_shows_what_came():
    found = the(run(half_dead, 240), RULE)
    assert found.severity is Severity.INFO
    assert found.steps == (1, 100)
    assert found.evidence["acr_came"] == pytest.approx(0.5, abs=0.05)


def test_a_stall_that_has_come_is_no_forecast():
    assert the(run(half_dead, 80), RULE).severity is Severity.INFO


@pytest.mark.parametrize(
    "rate",
    [
        lambda rng, step: np.clip(0.03 + 0.5 * step / step.max(), 0, 1),
        lambda rng, step: rng.uniform(0.2, 0.8, len(step)),
    ],
)
@pytest.mark.parametrize("steps", [20, 60, 150])
def test_silent_on_runs_that_recover_or_are_sound(rate, steps):
    assert RULE not in names(run(rate, steps))


@pytest.mark.parametrize("kind", sorted(HEALTHY))
def test_silent_on_healthy_runs(kind):
    assert of(HEALTHY[kind](), RULE) == []


def test_silent_on_few_steps_and_on_a_filtered_log():
    assert RULE not in names(run(half_dead, 6))
    assert RULE not in names(Run(run(half_dead, 40), facts=LogFacts(filtered=True)))


def test_a_line_learnt_from_other_runs_and_from_nothing_else():
    line = learn_line([0.1, 0.2, 0.3, 0.5, 0.6, 0.7], [0.7, 0.66, 0.6, 0.52, 0.45, 0.41])
    case = Case(Run(run(fading, 40)), line=line)
    (found,) = [one for one in examine(case) if one.rule == RULE]
    low, high = found.evidence["own_line_final_interval"]
    assert low < found.evidence["own_line_final"] < high
    assert found.evidence["own_line_runs"] == 6
    assert "own_line_final" not in the(run(fading, 40), RULE).evidence

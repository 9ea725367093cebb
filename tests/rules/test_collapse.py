import numpy as np
import pytest

from buttress.groups import Groups, Run
from buttress.rules import Case, Severity, examine, verdict
from buttress.rules.course import spells
from tests.rules.runs import binary, names, of, scalar, scalars, steps_of, the

RULE = "advantage-collapse"


def at_rate(rate: float, n_steps: int, per_step: int = 10) -> list[list[float]]:
    """Return groups of which exactly this share is all wrong in every step."""
    tied = round(rate * per_step)
    return ([[0.0, 0, 0, 0]] * tied + [[0.0, 1, 0, 1]] * (per_step - tied)) * n_steps


def run_of(*stretches: tuple[float, int]) -> Groups:
    """Build a run from (ACR, steps) stretches of ten groups a step."""
    groups = [group for rate, n in stretches for group in at_rate(rate, n)]
    return Groups.from_nested(groups, step=np.repeat(np.arange(len(groups) // 10), 10))


@pytest.mark.parametrize(
    ("stretches", "severity"),
    [
        ([(0.3, 40)], None),
        ([(0.4, 40)], Severity.WARNING),
        ([(0.4, 60)], Severity.ERROR),
        ([(0.8, 1)], Severity.ERROR),
        # a collapse that comes late is there although the run as a whole is below the line
        ([(0.1, 100), (0.5, 20)], Severity.WARNING),
        ([(0.1, 200), (0.9, 30)], Severity.ERROR),
        ([(0.1, 300), (0.5, 60)], Severity.ERROR),
        # one that the run got over
        ([(0.5, 60), (0.1, 200)], Severity.INFO),
        ([(0.5, 40), (0.1, 200)], None),
        ([(0.9, 60), (0.1, 30)], Severity.WARNING),
    ],
)
def test_severity_follows_level_and_length(stretches, severity):
    found = of(run_of(*stretches), RULE)
    assert [one.severity for one in found] == ([severity] if severity else [])


def test_logged_every_tenth_step_counts_in_steps():
    groups = at_rate(0.5, 8)
    steps = 10 * np.repeat(np.arange(8), 10)
    assert the(Groups.from_nested(groups, step=steps), RULE).severity is Severity.ERROR


def test_evidence_and_since_when():
    found = the(run_of((0.1, 100), (0.9, 40)), RULE)
    assert "since step 9" in found.message or "since step 10" in found.message
    assert found.evidence["tied_groups"] == 460
    assert found.evidence["all_wrong"] == 460
    low, high = found.evidence["acr_interval"]
    assert low < found.evidence["acr"] < high
    assert found.evidence["wasted_rollouts"] == 1840
    assert found.evidence["wasted_tokens"] is None


def test_spells_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 60))
        tied = rng.integers(0, 11, n)
        found, ends = spells(np.arange(n), tied, np.full(n, 10))
        above = tied / 10 > 0.35
        runs, start = [], None
        for i, one in enumerate([*above, False]):
            if one and start is None:
                start = i
            if not one and start is not None:
                runs.append((start, i - 1))
                start = None
        assert [(spell.first, spell.last) for spell in found] == runs
        assert ends == bool(above[-1])


def test_one_group_a_step_is_smoothed():
    """With one group a step the ACR of a step is 0 or 1; a rate of a half must still stall."""
    rng = np.random.default_rng(1)
    dead = rng.random(400) < 0.6
    groups = [[0.0] * 4 if one else [0.0, 1, 1, 0] for one in dead]
    found = the(Groups.from_nested(groups, step=np.arange(400)), RULE)
    assert found.severity is Severity.ERROR
    assert found.evidence["longest_steps_above"] > 300


def test_kinds_get_opposite_cures():
    wrong = Groups.from_dense(np.zeros((40, 4)))
    right = Groups.from_dense(np.ones((40, 4)))
    for groups, kind in ((wrong, "all-wrong-collapse"), (right, "all-correct-collapse")):
        assert the(groups, kind).severity is Severity.ERROR
        assert the(groups, kind).advice[:2] == the(groups, RULE).advice
    assert "harder" not in str(the(wrong, RULE).advice)
    assert "harder" in str(the(right, RULE).advice)
    assert "all-correct-collapse" not in names(wrong)
    assert "all-wrong-collapse" not in names(right)


def test_no_kind_dominates():
    groups = Groups.from_dense(np.repeat([[0.0] * 4, [1.0] * 4], 20, axis=0))
    assert {"all-wrong-collapse", "all-correct-collapse"}.isdisjoint(names(groups))
    advice = [one.action for one in the(groups, RULE).advice]
    assert "`posterior`" in advice[0]
    assert "dynamic sampling" in advice[-1]


@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_kinds_of_other_scales(low):
    groups = Groups.from_dense(np.where(np.arange(40) < 38, low, 2.0)[:, None] * np.ones(4))
    assert the(groups, "all-wrong-collapse").evidence["groups"] == 38


def test_highest_level_below_one_is_not_taken_for_solved():
    """A run stuck at the format reward shows 0 and 0.1: the top of that is not a solved task."""
    groups = Groups.from_dense(np.where(np.arange(40) < 3, 0.0, 0.1)[:, None] * np.ones(8))
    found = the(groups, "all-correct-collapse")
    assert found.severity is Severity.WARNING
    assert "open" in found.message
    assert "harder" not in str(found.advice)


def mastered(tail: int) -> Run:
    rng = np.random.default_rng(2)
    step = steps_of(16 * (40 + tail), 40 + tail)
    rate = np.clip(0.4 + 0.6 * step / 40, 0, 0.999)
    outcome = binary(rng, rate)
    return Run(Groups.from_dense(outcome, step=step, correct=outcome))


def test_mastery_is_no_alarm_unless_it_is_most_of_the_run():
    assert the(mastered(20), RULE).severity is Severity.INFO
    assert the(mastered(400), RULE).severity is Severity.WARNING


def test_easy_from_the_start_is_no_mastery():
    rng = np.random.default_rng(3)
    outcome = binary(rng, np.full(640, 0.995))
    found = the(Groups.from_dense(outcome, step=steps_of(640, 40), correct=outcome), RULE)
    assert found.severity is Severity.ERROR


def test_rising_to_a_format_plateau_is_no_mastery():
    """The reward rises from 0 to 0.1 and stays: by `correct` these groups are all wrong."""
    rng = np.random.default_rng(4)
    step = steps_of(960, 60)
    rewards = 0.1 * binary(rng, np.clip(step / 20, 0, 1.0))
    found = the(Groups.from_dense(rewards, step=step, correct=np.zeros_like(rewards)), RULE)
    assert found.severity >= Severity.WARNING
    assert found.evidence["mastered"] is False


def test_speaks_from_the_scalar_alone():
    bare = Groups.from_nested([])
    found = the(Run(bare, scalars(frac_reward_zero_std=[0.9] * 20)), RULE)
    assert found.severity is Severity.WARNING
    assert found.evidence["acr"] is None
    assert found.evidence["frac_reward_zero_std"] == pytest.approx(0.9)
    assert of(Run(bare, scalars(frac_reward_zero_std=[0.3] * 20)), RULE) == []
    nulls = Run(bare, {"frac_reward_zero_std": scalar([np.nan] * 20)})
    assert of(nulls, RULE) == []


def test_rollouts_outweigh_the_scalar():
    groups = Groups.from_dense(np.tile([0.0, 1.0], (40, 4)))
    assert of(Run(groups, scalars(frac_reward_zero_std=[1.0] * 20)), RULE) == []


def test_undefined_rate_is_no_finding():
    singles = Groups.from_dense(np.zeros((40, 1)))
    assert RULE not in names(singles)


class TestFallen:
    """A run that was alive and ends in groups that nobody solves, whatever it had mastered."""

    def run(self, end, steps=100, per_step=16, late=None, seed=0):
        rng = np.random.default_rng(seed)
        step = steps_of(per_step * steps, steps)
        rate = np.clip(0.3 + 1.1 * step / steps, 0, 0.998)
        rate[step > end] = 0.0 if late is None else late
        return Groups.from_dense(binary(rng, rate), step=step)

    @pytest.mark.parametrize("end", [97, 95, 90, 80])
    def test_mastery_does_not_excuse_the_end(self, end):
        groups = self.run(end)
        found = the(groups, "advantage-collapse")
        assert found.severity is Severity.ERROR
        assert found.evidence["fell_at"] == end + 1
        assert found.steps == (end + 1, 100)
        assert f"since step {end + 1}, 100% are tied and not solved" in found.message
        kind = the(groups, "all-wrong-collapse")
        assert kind.message.startswith(f"{(100 - end) * 16} of {(100 - end) * 16} tied groups")
        assert "all-correct-collapse" not in names(groups)
        assert found.advice[0].action.startswith("go back to a checkpoint")
        case = Case(Run(groups))
        assert verdict(case, examine(case)) == "collapsed"

    def test_two_steps_may_be_an_outage(self):
        assert the(self.run(98), "advantage-collapse").severity is Severity.WARNING

    @pytest.mark.parametrize("seed", range(5))
    def test_mastery_without_a_fall_stays_good_news(self, seed):
        groups = self.run(100, seed=seed)
        assert the(groups, "advantage-collapse").severity is Severity.INFO

    def test_a_run_that_was_never_alive_did_not_fall(self):
        hard = Groups.from_dense(np.zeros((320, 8)), step=steps_of(320, 20))
        assert the(hard, "advantage-collapse").evidence["fell_at"] is None

    def test_prompts_that_were_dead_before_are_no_fall(self):
        # an epoch in order of difficulty: the dead prompts come up at the end again
        rate = np.tile(np.repeat([0.0, 0.5], 160), 3)[160:]
        rate = np.concatenate([rate, np.zeros(80)])
        ids = np.tile(np.arange(320), 4)[160 : 160 + len(rate)]
        rewards = binary(np.random.default_rng(1), rate)
        step = steps_of(len(rate), len(rate) // 16)
        again = Groups.from_dense(rewards, step=step, prompt_id=ids)
        assert Case(Run(again)).course.fallen is None
        # the same rewards on other prompts are one
        assert Case(Run(Groups.from_dense(rewards, step=step))).course.fallen is not None

    @pytest.mark.parametrize("late", [0.1, 0.3])
    def test_a_dip_is_no_fall(self, late):
        groups = self.run(95, late=late)
        assert all(one.evidence["fell_at"] is None for one in of(groups, "advantage-collapse"))

    def test_the_cause_of_the_fall_is_asked_of_the_fall(self):
        groups = self.run(95)
        cut = np.repeat(groups.step > 95, 8).reshape(-1, 8)
        capped = Groups.from_dense(groups.rewards.reshape(-1, 8), step=groups.step, truncated=cut)
        assert the(capped, "advantage-collapse").evidence["cause"] == "truncation"

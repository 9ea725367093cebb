import numpy as np
import pytest

from buttress.groups import Groups, Run
from buttress.rules import Severity
from buttress.rules.correctness import format_like, task_like
from tests.rules.runs import binary, early, names, of, scalar, scalars, steps_of, the

RNG = np.random.default_rng(0)
FORMAT = binary(RNG, np.full(64, 0.6))
DEAD = np.zeros((64, 8))


def run(correct=None, **parts) -> Groups:
    """Build groups whose reward is the sum of correctness and the other parts."""
    total = sum(parts.values()) + (0 if correct is None else correct)
    columns = {f"reward/{name}": values for name, values in parts.items()}
    if correct is not None:
        columns["correct"] = correct
    return Groups.from_dense(total, **columns)


class TestComponentCollapse:
    rule = "component-collapse"

    def test_dead_correctness_under_a_live_format(self):
        found = the(run(DEAD, format=0.1 * FORMAT), self.rule)
        assert found.severity is Severity.ERROR
        assert found.evidence["acr_of_component"] == 1
        assert found.evidence["varying"] == ["reward/format"]

    def test_by_the_name_of_a_component(self):
        parts = {"accuracy_reward": DEAD, "format_reward": 0.1 * FORMAT}
        assert the(run(**parts), self.rule).evidence["component"] == "reward/accuracy_reward"

    def test_unnamed_components_are_a_warning(self):
        parts = {"func_1": DEAD, "tag_count": 0.1 * FORMAT}
        assert the(run(**parts), self.rule).severity is Severity.WARNING
        # a penalty that nobody earned is no dead task
        parts = {"func_1": binary(RNG, np.full(64, 0.5)), "length_penalty": DEAD}
        assert self.rule not in names(run(**parts))

    def test_mastered_correctness_is_an_info(self):
        assert the(run(DEAD + 1, format=0.1 * FORMAT), self.rule).severity is Severity.INFO

    def test_live_correctness_is_silent(self):
        live = binary(np.random.default_rng(1), np.full(64, 0.5))
        assert self.rule not in names(run(live, format=0.1 * FORMAT))

    def test_collapse_of_both_is_not_hidden(self):
        assert self.rule not in names(run(DEAD, format=DEAD))

    def test_partial_credit_by_name_is_an_info(self):
        passed = RNG.integers(0, 9, (64, 8)) / 10
        assert the(run(DEAD, test_pass=passed), self.rule).severity is Severity.INFO

    def test_the_cap_comes_first(self):
        groups = Groups.from_dense(0.1 * FORMAT, correct=DEAD, truncated=np.ones_like(DEAD))
        assert "max_completion_length" in the(groups, self.rule).advice[0].action

    def test_scalars_alone(self):
        logged = scalars(reward_std=[0.04] * 20, frac_reward_zero_std=[0.1] * 20) | {
            "rewards/accuracy_reward/mean": scalar([0.0] * 20),
            "rewards/accuracy_reward/std": scalar([0.0] * 20),
            "rewards/format_reward/mean": scalar([0.3] * 20),
            "rewards/format_reward/std": scalar([0.1] * 20),
        }
        found = the(Run(Groups.from_nested([]), logged), self.rule)
        assert found.evidence["component"] == "reward/accuracy_reward"
        logged["rewards/accuracy_reward/std"] = scalar([0.4] * 20)
        assert of(Run(Groups.from_nested([]), logged), self.rule) == []


class TestFormatSaturated:
    rule = "format-saturated"

    def test_never_called_too_easy(self):
        for groups in (
            run(DEAD, format=DEAD + 0.1),
            Groups.from_dense(DEAD + 0.1, correct=DEAD),
            run(accuracy=DEAD, format=DEAD + 0.1),
            run(func_1=DEAD, func_2=DEAD + 0.5),
            # one level of the format is 1, which looks like solved
            run(func_1=DEAD, format=DEAD + 1),
            run(accuracy=DEAD, format=DEAD + 1),
        ):
            found = names(groups)
            assert found[0] == self.rule
            assert "all-correct-collapse" not in found
            assert the(groups, self.rule).severity is Severity.ERROR
            assert "harder" not in str([one.advice for one in of(groups, "advantage-collapse")])

    def test_a_few_slips_of_the_format_do_not_hide_it(self):
        slips = np.where(RNG.random((64, 8)) < 0.995, 0.1, 0.0)
        assert names(run(DEAD, format=slips))[0] == self.rule

    def test_a_constant_bonus_on_live_correctness_is_silent(self):
        outcome, _ = early(np.random.default_rng(2))
        assert self.rule not in names(run(outcome, format=np.full_like(outcome, 0.1)))

    def test_mastered_runs_are_silent(self):
        for groups in (
            run(DEAD + 1, format=DEAD + 0.1),
            run(accuracy=DEAD + 1, format=DEAD + 0.1),
            run(accuracy=DEAD + 1, length_penalty=DEAD),
            run(score=DEAD + 1, length_penalty=DEAD),
        ):
            assert self.rule not in names(groups)

    def test_different_levels_are_partial_credit(self):
        levels = np.repeat(RNG.integers(1, 9, 64) / 10, 8).reshape(64, 8)
        assert self.rule not in names(Groups.from_dense(levels, correct=DEAD))

    def test_a_bonus_on_a_hard_half_is_plain_all_wrong(self):
        correct = np.tile([0.0, 1.0], (64, 4))
        correct[:40] = 0
        groups = run(correct, format=DEAD + 0.1)
        assert self.rule not in names(groups)
        assert "all-wrong-collapse" in names(groups)

    def test_a_task_that_differs_between_prompts_is_not_dead(self):
        task = np.where(np.arange(64) % 2, -7.0, 3.0)[:, None] + DEAD
        assert self.rule not in names(run(task=task, format=DEAD + 1))

    def test_all_zero_is_plain_collapse(self):
        assert self.rule not in names(run(DEAD, format=DEAD))


class TestPhantomSignal:
    rule = "phantom-signal"

    def penalised(self, correct):
        length = np.random.default_rng(3).uniform(0, 1, correct.shape)
        return run(correct, length_penalty=-length)

    def test_a_length_penalty_on_dead_correctness(self):
        found = the(self.penalised(DEAD), self.rule)
        assert found.severity is Severity.ERROR
        assert found.evidence["share"] == 1
        assert 0.5 < found.evidence["mean_range"] < 1
        assert "correctness" in found.advice[0].action

    @pytest.mark.parametrize(
        ("dead", "severity"), [(0.9, Severity.ERROR), (0.5, Severity.WARNING), (0.2, Severity.INFO)]
    )
    def test_severity_by_share(self, dead, severity):
        correct = np.tile([0.0, 1.0], (100, 4))
        correct[: int(dead * 100)] = 0
        assert the(self.penalised(correct), self.rule).severity is severity

    def test_solved_groups_are_an_info(self):
        assert the(self.penalised(DEAD + 1), self.rule).severity is Severity.INFO

    def test_silent_below_a_tenth(self):
        correct = np.tile([0.0, 1.0], (100, 4))
        correct[:5] = 0
        assert self.rule not in names(self.penalised(correct))

    def test_shaping_of_solved_rollouts_is_no_partial_credit(self):
        """Without components: credit leaves solved rollouts at the top, a penalty does not."""
        rng = np.random.default_rng(4)
        correct = binary(rng, rng.choice([0.0, 0.5], 200))
        shaped = correct - rng.uniform(0, 0.2, correct.shape)
        found = the(Groups.from_dense(shaped, correct=correct), self.rule)
        assert found.severity is Severity.WARNING
        parts = np.where(correct == 1, 1.0, rng.integers(0, 9, correct.shape) / 10)
        found = the(Groups.from_dense(parts, correct=correct), self.rule)
        assert found.severity is Severity.INFO

    def test_needs_correctness(self):
        assert self.rule not in names(Groups.from_dense(0.1 * FORMAT, step=steps_of(64, 8)))


@pytest.mark.parametrize(
    ("name", "task", "form"),
    [
        ("accuracy_reward", True, False),
        ("correctness_reward_func", True, False),
        ("acc", True, False),
        ("task", True, False),
        ("answer_format", False, True),
        ("xmlcount_reward_func", False, True),
        ("get_soft_overlong_punishment", False, True),
        ("helpfulness", False, False),
    ],
)
def test_names_of_components(name, task, form):
    assert task_like(f"reward/{name}") is task
    assert format_like(f"reward/{name}") is form

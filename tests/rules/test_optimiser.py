import numpy as np
import pytest

from buttress.groups import Groups, Run
from buttress.rules import Severity
from tests.rules.runs import names, of, scalars, the

BARE = Groups.from_nested([])


def groups_of(dead_steps: int, live_steps: int, per_step: int = 4) -> Groups:
    """Build steps of tied groups followed by steps of mixed ones."""
    rewards = [[0.0] * 4] * (dead_steps * per_step) + [[0.0, 1, 0, 1]] * (live_steps * per_step)
    return Groups.from_nested(rewards, step=1 + np.arange(len(rewards)) // per_step)


class TestUpdateLost:
    rule = "update-lost"

    def test_zero_gradient_beside_mixed_groups(self):
        found = the(Run(groups_of(0, 20), scalars(grad_norm=[0.0] * 20)), self.rule)
        assert found.severity is Severity.ERROR
        assert "not collapse" in found.message

    def test_some_zero_lines_are_a_warning(self):
        grad = [0.0, 0.0, 0.3] * 10
        found = the(Run(groups_of(0, 30), scalars(grad_norm=grad)), self.rule)
        assert found.severity is Severity.WARNING

    def test_zero_gradient_of_tied_groups_is_no_loss(self):
        run = Run(groups_of(20, 2), scalars(grad_norm=[0.0] * 20 + [0.1] * 2))
        assert self.rule not in names(run)

    def test_learning_rate_of_zero(self):
        run = Run(groups_of(0, 20), scalars(grad_norm=[0.1] * 20, learning_rate=[0.0] * 20))
        found = the(run, self.rule)
        assert found.evidence["seen_in"] == "learning_rate"
        decayed = Run(groups_of(0, 20), scalars(learning_rate=[1e-6] * 19 + [0.0]))
        assert self.rule not in names(decayed)

    def test_masked_out_truncation_is_named_first(self):
        groups = groups_of(0, 20)
        cut = Groups.from_nested(
            groups.rewards.reshape(-1, 4).tolist(),
            step=groups.step,
            truncated=np.ones((len(groups), 4)).tolist(),
        )
        found = the(Run(cut, scalars(grad_norm=[0.0] * 20)), self.rule)
        assert "mask_truncated_completions" in found.advice[0].action

    def test_scalars_alone(self):
        live = {"reward_std": [0.5] * 20, "frac_reward_zero_std": [0.1] * 20}
        assert self.rule in names(Run(BARE, scalars(grad_norm=[0.0] * 20, **live)))
        # spread between prompts only: every group is tied, and a gradient of zero is right
        dead = {"reward_std": [5.35] * 20, "frac_reward_zero_std": [1.0] * 20}
        assert self.rule not in names(Run(BARE, scalars(grad_norm=[0.0] * 20, **dead)))
        assert self.rule not in names(Run(BARE, scalars(grad_norm=[0.0] * 20)))


class TestLossZero:
    rule = "loss-zero-normal"

    def test_with_rollouts(self):
        run = Run(groups_of(0, 20), scalars(loss=[0.0] * 20, grad_norm=[0.1] * 20))
        assert the(run, self.rule).severity is Severity.INFO

    @pytest.mark.parametrize(
        ("loss", "grad", "zero_std"), [(0.3, 0.1, 0.1), (0.0, 0.0, 0.1), (0.0, 0.1, 0.95)]
    )
    def test_silent_where_there_is_nothing_to_explain(self, loss, grad, zero_std):
        logged = scalars(
            loss=[loss] * 20, grad_norm=[grad] * 20, frac_reward_zero_std=[zero_std] * 20
        )
        assert self.rule not in names(Run(BARE, logged))

    def test_silent_without_any_sign_of_health(self):
        assert self.rule not in names(Run(BARE, scalars(loss=[0.0] * 20)))


class TestKlOnly:
    rule = "kl-only-gradient"

    def test_gradient_without_a_mixed_group(self):
        run = Run(groups_of(20, 0), scalars(grad_norm=[0.02] * 20, kl=[0.01] * 20))
        assert the(run, self.rule).severity is Severity.WARNING
        assert "advantage-collapse" in names(run)

    def test_single_steps_are_an_info(self):
        run = Run(groups_of(5, 20), scalars(grad_norm=[0.02] * 25, kl=[0.01] * 25))
        assert the(run, self.rule).severity is Severity.INFO

    @pytest.mark.parametrize("logged", [{}, {"kl": [0.0] * 20}])
    def test_needs_a_kl_term(self, logged):
        assert self.rule not in names(
            Run(groups_of(20, 0), scalars(grad_norm=[0.02] * 20, **logged))
        )

    def test_silent_without_a_gradient_and_with_mixed_groups(self):
        still = scalars(grad_norm=[0.0] * 20, kl=[0.01] * 20)
        moving = scalars(grad_norm=[0.1] * 20, kl=[0.01] * 20)
        assert self.rule not in names(Run(groups_of(20, 0), still))
        assert self.rule not in names(Run(groups_of(0, 20), moving))

    def test_advantages_of_tied_groups_explain_the_gradient(self):
        groups = Groups.from_nested(
            [[0.0] * 4] * 80, step=1 + np.arange(80) // 4, advantage=[[-0.5] * 4] * 80
        )
        run = Run(groups, scalars(grad_norm=[0.02] * 20, kl=[0.01] * 20))
        assert self.rule not in names(run)

    def test_scalars_alone(self):
        logged = scalars(
            grad_norm=[0.02] * 20,
            kl=[0.01] * 20,
            frac_reward_zero_std=[1.0] * 20,
            reward_std=[0.0] * 20,
        )
        assert self.rule in names(Run(BARE, logged))


class TestDiluted:
    rule = "diluted-loss"

    def test_by_rollouts_and_by_tokens(self):
        groups = groups_of(10, 10)
        assert the(groups, self.rule).evidence["share"] == pytest.approx(0.5)
        length = np.where(np.arange(80) < 40, 300, 100)[:, None] * np.ones(4, dtype=int)
        longer = Groups.from_nested(
            groups.rewards.reshape(-1, 4).tolist(), step=groups.step, length=length.tolist()
        )
        found = the(longer, self.rule)
        assert found.evidence["share"] == pytest.approx(0.75)
        assert found.evidence["unit"] == "tokens"
        assert found.severity is Severity.INFO

    def test_silent_without_collapse_and_without_signal(self):
        assert self.rule not in names(groups_of(1, 19))
        assert self.rule not in names(groups_of(20, 0))


def test_steps_that_do_not_match_are_no_evidence():
    run = Run(groups_of(0, 5), scalars(grad_norm=[0.0] * 20))
    shifted = Run(
        Groups.from_nested([[0.0, 1]] * 20, step=1000 + np.arange(20)),
        scalars(grad_norm=[0.0] * 20),
    )
    assert of(run, "update-lost")[0].evidence["lines"] == 5
    assert of(shifted, "update-lost") == []

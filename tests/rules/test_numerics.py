import numpy as np
import pytest

from buttress.groups import Groups
from buttress.rules import Severity
from buttress.rules.logged import rounds
from tests.rules.runs import binary, grpo, names, of, steps_of, the

MIXED = np.tile([0.0, 1.0], (16, 4))


def with_ties(value: float, advantage: float, n: int = 8) -> Groups:
    """Build mixed groups, and groups tied at a value with one advantage."""
    rewards = np.concatenate([MIXED, np.full((n, 8), value)])
    advantages = np.concatenate([grpo(MIXED), np.full((n, 8), advantage)])
    return Groups.from_dense(rewards, advantage=advantages)


class TestPhantomAdvantage:
    rule = "phantom-advantage"

    @pytest.mark.parametrize(
        ("advantage", "severity"),
        [(6e-4, Severity.INFO), (0.056, Severity.WARNING), (59.6, Severity.ERROR)],
    )
    def test_rounding_by_size(self, advantage, severity):
        found = the(with_ties(0.7, advantage), self.rule)
        assert found.severity is severity
        assert found.evidence["largest"] == pytest.approx(advantage)
        assert "float64" in found.advice[0].action

    @pytest.mark.parametrize("advantage", [0.0, 2.4e-7])
    def test_silent_at_zero_and_at_unnormalised_noise(self, advantage):
        assert self.rule not in names(with_ties(0.7, advantage))

    def test_real_float32_noise_of_real_formulas(self):
        torch = pytest.importorskip("torch")
        one = torch.full((8,), 0.7)
        noise = float(((one - one.mean()) / (one.std() + 1e-6))[0])
        if noise == 0:
            pytest.skip("this torch build sums eight times 0.7 exactly")
        assert the(with_ties(0.7, noise), self.rule).severity is Severity.WARNING

    @pytest.mark.parametrize("n", [4, 8, 16])
    @pytest.mark.parametrize("sign", [-1, 1])
    def test_rounding_divided_by_its_own_deviation(self, n, sign):
        """With an eps of 1e-9 the error d becomes d / (d sqrt(n / (n - 1))), all of one sign."""
        mixed = np.tile([0.0, 2.1], (16, n // 2))
        error = float(np.spacing(np.float32(2.1)))
        one = sign * error / (error * np.sqrt(n / (n - 1)) + 1e-9)
        groups = Groups.from_dense(
            np.concatenate([mixed, np.full((8, n), 2.1)]),
            advantage=np.concatenate([grpo(mixed), np.full((8, n), one)]),
        )
        assert the(groups, self.rule).severity >= Severity.WARNING

    def test_one_sign_for_right_and_wrong_is_no_design(self):
        """Rounding errs upwards at both levels, and there are few groups at the lower one."""
        rewards = np.concatenate([0.7 + 0.7 * MIXED, np.full((2, 8), 0.7), np.full((60, 8), 1.4)])
        advantage = np.concatenate([grpo(MIXED), np.full((2, 8), 0.06), np.full((60, 8), 0.12)])
        found = the(Groups.from_dense(rewards, advantage=advantage), self.rule)
        assert found.severity is Severity.WARNING
        assert "rounding" in found.message

    def test_float_twins_are_tied(self):
        rewards = np.concatenate([MIXED[:, :4], [[1, 1, 1, 0.99999994]]])
        advantage = np.concatenate([grpo(MIXED[:, :4]), [[0.5, 0.5, 0.5, -1.5]]])
        found = the(Groups.from_dense(rewards, advantage=advantage), self.rule)
        assert found.severity is Severity.ERROR
        assert found.evidence["groups"] == 1

    def test_an_estimator_that_acts_on_ties_is_an_info(self):
        rewards = np.concatenate([MIXED, np.zeros((8, 8)), np.ones((8, 8))])
        advantage = np.concatenate([grpo(MIXED), np.full((8, 8), -0.6), np.full((8, 8), 0.6)])
        found = the(Groups.from_dense(rewards, advantage=advantage), self.rule)
        assert found.severity is Severity.INFO
        assert "acts on tied groups" in found.message
        # also where the levels are such that rounding is possible, by the signs of the kinds
        found = the(Groups.from_dense(1.1 * rewards + 0.1, advantage=advantage), self.rule)
        assert found.severity is Severity.INFO

    def test_wrong_sign_or_differing_advantages_are_foreign(self):
        assert "other rows" in the(with_ties(0.0, 0.6), self.rule).message
        rewards = np.concatenate([MIXED, np.zeros((8, 8))])
        advantage = np.concatenate([grpo(MIXED), grpo(MIXED[:8])])
        found = the(Groups.from_dense(rewards, advantage=advantage), self.rule)
        assert found.severity is Severity.WARNING

    def test_no_advantages_no_finding(self):
        assert self.rule not in names(Groups.from_dense(np.full((8, 8), 0.7)))


def test_rounding_of_float32_means_is_foreseen():
    """Where `rounds` says no, the float32 mean of equal values is that value."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(-64, 65, 200) / 16, rng.normal(0, 2, 200), [0.7, 0.1]])
    for size in (2, 3, 4, 5, 8, 10, 16, 64):
        may = rounds(values, np.full(len(values), size))
        for value, possible in zip(values, may, strict=True):
            single = np.float32(value)
            total = np.float32(0)
            for _ in range(size):
                total += single
            if total / np.float32(size) != single:
                assert possible
    assert rounds(np.array([0.7, 0.1, 2.1]), np.full(3, 8)).all()
    assert not rounds(np.array([0.0, 1.0, -1.0, 0.5, 5.0]), np.full(5, 8)).any()


class TestNearTie:
    rule = "near-tie-blow-up"

    def rewards(self, near: int) -> np.ndarray:
        jitter = 0.5 + 1e-3 * np.random.default_rng(1).random((near, 8))
        return np.concatenate([np.tile([0.0, 1.0], (32, 4)), jitter])

    def test_full_size_advantages(self):
        rewards = self.rewards(8)
        found = the(Groups.from_dense(rewards, advantage=grpo(rewards)), self.rule)
        assert found.severity is Severity.WARNING
        assert found.evidence["blown_up"] == 8
        assert found.evidence["median_range"] < 1e-3

    def test_unnormalised_advantages_stay_small(self):
        for scale in (1e-3, 1.0, 1e3):
            rewards = scale * self.rewards(8)
            centred = rewards - rewards.mean(axis=1, keepdims=True)
            assert self.rule not in names(Groups.from_dense(rewards, advantage=centred))

    def test_without_advantages_an_info(self):
        assert the(Groups.from_dense(self.rewards(8)), self.rule).severity is Severity.INFO

    def test_few_are_silent(self):
        rewards = self.rewards(1)
        assert self.rule not in names(Groups.from_dense(rewards, advantage=grpo(rewards)))

    def test_a_run_of_near_ties_only(self):
        rewards = self.rewards(40)[32:]
        rewards[:20] += 1.0
        assert self.rule in names(Groups.from_dense(rewards, advantage=grpo(rewards)))
        centred = rewards - rewards.mean(axis=1, keepdims=True)
        assert self.rule not in names(Groups.from_dense(rewards, advantage=centred))


class TestImpossible:
    rule = "impossible-advantage"

    def test_leave_one_out_deviation(self):
        groups = Groups.from_nested([[1, 0, 0, 0]], advantage=[[1e6, -0.577, -0.577, -0.577]])
        found = the(groups, self.rule)
        assert found.severity is Severity.ERROR
        assert found.evidence["bound_ddof1"] == pytest.approx(1.5)
        assert found.evidence["bound_ddof0"] == pytest.approx(3**0.5)

    @pytest.mark.parametrize("ddof", [0, 1])
    def test_bound_of_normalised_groups(self, ddof):
        rng = np.random.default_rng(2)
        rewards = rng.normal(0, 1, (200, 8))
        rewards[:20, 1:] = rewards[:20, 1:2]  # one against seven touches the bound
        advantage = grpo(rewards, ddof=ddof, eps=1e-6)
        assert self.rule not in names(Groups.from_dense(rewards, advantage=advantage))
        advantage[0, 0] *= 1.2
        found = the(Groups.from_dense(rewards, advantage=advantage), self.rule)
        assert found.severity is Severity.WARNING
        assert found.evidence["groups"] == 1
        assert found.evidence["normalised"] is True

    @pytest.mark.parametrize("size", [2, 3, 4, 8, 16])
    @pytest.mark.parametrize("levels", [(0, 1), (-1, 1), (0, 100)])
    @pytest.mark.parametrize("loo", [False, True])
    def test_unnormalised_advantages_scale_with_the_reward(self, size, levels, loo):
        rng = np.random.default_rng(3)
        low, high = levels
        rewards = low + (high - low) * binary(rng, rng.beta(1, 1, 400), size=size)
        centred = rewards - rewards.mean(axis=1, keepdims=True)
        advantage = centred * (size / (size - 1) if loo else 1)
        groups = Groups.from_dense(rewards, step=steps_of(400, 20), advantage=advantage)
        assert self.rule not in names(groups)

    def test_batch_scaled_advantages_may_be_large(self):
        rewards = np.zeros((64, 8))
        rewards[0, 0] = 1
        advantage = (rewards - rewards.mean(axis=1, keepdims=True)) / rewards.std(ddof=1)
        assert advantage.max() > 19
        assert self.rule not in names(Groups.from_dense(rewards, advantage=advantage))

    def test_ragged_groups_have_their_own_bounds(self):
        rng = np.random.default_rng(4)
        rewards = [rng.normal(0, 1, n) for n in rng.integers(3, 9, 100)]
        advantage = [(r - r.mean()) / r.std(ddof=1) for r in rewards]
        assert self.rule not in names(Groups.from_nested(rewards, advantage=advantage))


def test_flat_batch_advantages_are_left_to_the_grouping():
    rewards = np.concatenate([MIXED, np.ones((8, 8)), np.full((8, 8), 3.0)])
    flat = (rewards - rewards.mean()) / rewards.std()
    groups = Groups.from_dense(rewards, advantage=flat)
    assert of(groups, "phantom-advantage") == []
    assert "flat batch" in the(groups, "broken-grouping").message

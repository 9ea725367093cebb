import numpy as np
import pytest

from buttress.groups import Groups
from buttress.rules import Severity
from buttress.rules.floor import floor_curve
from buttress.rules.prompt_counts import Counts, count_groups, count_prompts
from tests.rules.runs import binary, names, of, steps_of, the


class TestGroupSizeFloor:
    rule = "group-size-floor"

    def run(self, rate, size=16, seed=0):
        return Groups.from_dense(binary(np.random.default_rng(seed), rate, size=size))

    @pytest.mark.parametrize("size", [8, 16, 64])
    def test_half_of_the_prompts_never_solved(self, size):
        found = the(self.run(np.repeat([0.0, 0.364], 400), size), self.rule)
        assert found.evidence["floor"] == pytest.approx(0.5, abs=0.08)
        low, high = found.evidence["floor_interval"]
        assert low < 0.5 < high
        assert high - low < 0.15
        tied = dict(zip(found.evidence["sizes"], found.evidence["tied"], strict=True))
        for m, expected in ((2, 0.77), (4, 0.59), (8, 0.51)):
            assert tied[m] == pytest.approx(expected, abs=0.03)

    @pytest.mark.parametrize("size", [8, 16])
    def test_equal_prompts_have_no_floor(self, size):
        assert self.rule not in names(self.run(np.full(800, 0.18), size))

    def test_curve_of_equal_prompts(self):
        groups = self.run(np.full(4000, 0.18))
        counts = count_groups(groups, groups.rewards)
        curve = floor_curve(count_prompts(groups, counts, late=True))
        np.testing.assert_allclose(curve.tied, [0.705, 0.453, 0.205, 0.042], atol=0.02)

    def test_silent_on_truncation_and_on_few_prompts(self):
        rewards = binary(np.random.default_rng(1), np.repeat([0.0, 0.364], 40), size=16)
        cut = np.repeat(rewards.max(axis=1) == 0, 16).reshape(rewards.shape)
        assert self.rule in names(Groups.from_dense(rewards))
        assert self.rule not in names(Groups.from_dense(rewards, truncated=cut))
        assert self.rule not in names(Groups.from_dense(rewards[35:45]))

    def test_rollouts_of_a_prompt_are_pooled(self):
        rng = np.random.default_rng(2)
        rate = np.tile(np.repeat([0.0, 0.364], 50), 4)
        groups = Groups.from_dense(binary(rng, rate, size=4), prompt_id=[*range(100)] * 4)
        assert the(groups, self.rule).evidence["sizes"] == [2, 4, 8, 16]


@pytest.mark.parametrize("tries", [[], [0], [1], [4, 4]])
def test_too_few_rollouts_have_no_curve(tries):
    assert floor_curve(Counts(np.array(tries, dtype=int), np.zeros(len(tries)))) is None


class TestVerifier:
    rule = "verifier-suspect"

    def test_nothing_ever_scores(self):
        found = the(Groups.from_dense(np.zeros((64, 8))), self.rule)
        assert found.severity is Severity.WARNING
        assert found.evidence["rollouts"] == 512

    def test_also_under_a_live_format(self):
        form = 0.1 * binary(np.random.default_rng(0), np.full(64, 0.5))
        assert self.rule in names(Groups.from_dense(form, correct=np.zeros((64, 8))))

    def test_silent_on_few_on_truncated_and_on_one_success(self):
        assert self.rule not in names(Groups.from_dense(np.zeros((8, 8))))
        cut = Groups.from_dense(np.zeros((64, 8)), truncated=np.ones((64, 8)))
        assert self.rule not in names(cut)
        once = np.zeros((64, 8))
        once[0, 0] = 1
        assert self.rule not in names(Groups.from_dense(once))

    def test_equal_completions_with_different_verdicts(self):
        rng = np.random.default_rng(1)
        codes = rng.integers(1, 4, (100, 8))
        steady = (codes == 1).astype(float)
        assert self.rule not in names(Groups.from_dense(steady, completion=codes))
        noisy = np.where(rng.random(codes.shape) < 0.1, 1 - steady, steady)
        found = the(Groups.from_dense(noisy, completion=codes), self.rule)
        assert found.evidence["different_verdicts"] > 3


class TestMastery:
    rule = "mastery-lost"

    def run(self, before, after):
        rng = np.random.default_rng(4)
        rate = np.concatenate([before, before, after, after])
        return Groups.from_dense(
            binary(rng, rate),
            step=steps_of(len(rate), 4),
            prompt_id=[*range(len(before))] * 4,
        )

    def test_solved_and_no_longer(self):
        before = np.repeat([0.97, 0.4], 50)
        after = before.copy()
        after[:10] = 0.02
        found = the(self.run(before, after), self.rule)
        assert found.evidence["lost"] == 10
        assert found.evidence["prompts"] == [str(i) for i in range(10)]

    def test_solved_in_a_middle_stretch(self):
        rng = np.random.default_rng(6)
        rate = np.full((8, 60), 0.4)
        rate[:, :8] = 0.02
        rate[3:5, :8] = 0.97
        groups = Groups.from_dense(
            binary(rng, rate.ravel()), step=np.repeat(np.arange(8), 60), prompt_id=[*range(60)] * 8
        )
        found = the(groups, self.rule)
        assert found.evidence["lost"] == 8
        assert found.evidence["p_value"] <= 0.01

    @pytest.mark.parametrize("seed", range(6))
    def test_silent_where_success_comes_and_goes(self, seed):
        rng = np.random.default_rng(seed)
        rate = np.where(rng.random((8, 60)) < 0.3, 0.0, 0.9).ravel()
        groups = Groups.from_dense(
            binary(rng, rate), step=np.repeat(np.arange(8), 60), prompt_id=[*range(60)] * 8
        )
        assert self.rule not in names(groups)

    def test_silent_on_gains_and_on_noise(self):
        rate = np.repeat([0.97, 0.4], 50)
        assert self.rule not in names(self.run(rate, rate))
        assert self.rule not in names(self.run(1 - rate, rate))

    def test_needs_prompts_that_come_back(self):
        rewards = binary(np.random.default_rng(5), np.repeat([0.97, 0.02], 50))
        step = steps_of(100, 2)
        assert of(Groups.from_dense(rewards, step=step), self.rule) == []
        once = Groups.from_dense(rewards, step=step, prompt_id=range(100))
        assert of(once, self.rule) == []

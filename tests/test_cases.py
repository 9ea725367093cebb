"""The cases from the field through Python: each stands for a whole kind."""

from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.groups import LogFacts, Scalar

DATA = Path(__file__).parent / "logs" / "data"


def rules(diagnosis) -> list[str]:
    return [one.rule for one in diagnosis.findings]


def the(diagnosis, rule):
    (found,) = [one for one in diagnosis.findings if one.rule == rule]
    return found


def loud(diagnosis) -> list[str]:
    return [one.rule for one in diagnosis.findings if one.severity.label != "info"]


def scalars(**columns) -> dict[str, Scalar]:
    return {
        name: Scalar(np.arange(1, len(values) + 1), np.array(values, dtype=float))
        for name, values in columns.items()
    }


def advice_of(diagnosis) -> str:
    return " ".join(
        " ".join(part) for finding in diagnosis.findings for part in finding.advice
    ).lower()


class TestA1BatchSpreadIsNotGroupSpread:
    def test_two_prompts_far_apart(self):
        task = [[-7] * 4, [3] * 4]
        columns = {"reward/task": task, "reward/format": [[1] * 4] * 2}
        groups = bt.Groups.from_nested(task, **columns)
        found = bt.diagnose(groups)
        assert groups.rewards.std(ddof=1) == pytest.approx(5.35, abs=0.01)
        assert found.measures["acr"] == 1
        assert found.measures["effective_batch"] == 0
        assert found.verdict == "collapsed"
        assert rules(found)[0] == "advantage-collapse"

    @pytest.mark.parametrize("offset", [0.0, 100.0, -1e6])
    def test_whatever_lies_between_prompts(self, offset):
        level = offset + np.linspace(-3, 3, 32)
        found = bt.diagnose(bt.Groups.from_dense(np.repeat(level[:, None], 4, axis=1)))
        assert found.measures["acr"] == 1


class TestA2LossZeroIsNotCollapse:
    def logged(self, **other):
        rng = np.random.default_rng(0)
        return scalars(
            loss=[0.0] * 20,
            grad_norm=rng.uniform(0.08, 0.11, 20),
            reward_std=rng.uniform(0.5, 0.8, 20),
            frac_reward_zero_std=rng.uniform(0, 0.1, 20),
            **other,
        )

    def test_scalars_alone(self):
        found = bt.diagnose(bt.Run(bt.Groups.from_nested([]), self.logged()))
        assert found.verdict == "healthy"
        assert rules(found) == ["loss-zero-normal"]
        assert loud(found) == []
        assert found.measures["acr"] is None

    def test_beside_rollouts(self):
        groups = bt.Groups.from_dense(np.tile([0.0, 1.0], (80, 4)), step=np.repeat(range(1, 21), 4))
        found = bt.diagnose(bt.Run(groups, self.logged()))
        assert found.verdict == "healthy"
        assert rules(found) == ["loss-zero-normal"]


class TestA3TruncationKillsTheGroups:
    def test_every_completion_at_the_cap(self):
        groups = bt.Groups.from_dense(np.zeros((8, 8)), truncated=np.ones((8, 8), dtype=bool))
        logged = {"completions/clipped_ratio": Scalar(np.array([0]), np.array([1.0]))}
        found = bt.diagnose(bt.Run(groups, logged))
        assert rules(found)[0] == "truncation-collapse"
        assert found.findings[0].advice[0].action.startswith("raise the completion cap")
        for wrong in ("easier", "larger group", "more rollouts per prompt", "reach"):
            assert wrong not in advice_of(found)
        assert found.verdict == "collapsed"

    def test_the_share_is_named(self):
        truncated = np.repeat([1, 1, 1, 1, 1, 0, 0, 0], 8).reshape(8, 8)
        found = bt.diagnose(bt.Groups.from_dense(np.zeros((8, 8)), truncated=truncated))
        assert "5 of 8 tied groups" in the(found, "truncation-collapse").message
        assert rules(found)[0] == "truncation-collapse"

    @pytest.mark.parametrize("level", [0.0, -1.0, 0.1])
    def test_whatever_a_truncated_completion_earns(self, level):
        groups = bt.Groups.from_dense(np.full((8, 8), level), truncated=np.ones((8, 8)))
        assert rules(bt.diagnose(groups))[0] == "truncation-collapse"


class TestA4FloatTwins:
    @pytest.mark.parametrize(
        "rewards", [[0.1] * 16, [1, 1, 1, 0.99999994], list(np.float32([0.7] * 8))]
    )
    def test_tied_with_advantages_of_zero(self, rewards):
        groups = bt.Groups.from_nested([rewards])
        assert bt.collapse_rate(groups) == 1
        assert (bt.estimator("grpo")(groups) == 0).all()

    @pytest.mark.parametrize(
        ("logged", "severity"), [(0.056, "warning"), (59.6, "error"), (6e-4, "info")]
    )
    def test_what_the_trainer_made_of_it(self, logged, severity):
        groups = bt.Groups.from_nested(
            [[0.7] * 8, [0, 0.7] * 4], advantage=[[logged] * 8, [-0.94, 0.94] * 4]
        )
        found = bt.diagnose(groups)
        assert found.measures["acr"] == 0.5
        assert the(found, "phantom-advantage").severity.label == severity


class TestA5ImpossibleAdvantages:
    @pytest.mark.parametrize("value", [1e6, 1e4, 1e8])
    def test_a_leave_one_out_deviation(self, value):
        groups = bt.Groups.from_nested([[1, 0, 0, 0]], advantage=[[value, -0.577, -0.577, -0.577]])
        found = bt.diagnose(groups)
        assert found.measures["acr"] == 0
        assert found.measures["groups"]["mixed"] == 1
        evidence = the(found, "impossible-advantage").evidence
        assert evidence["bound_ddof1"] == pytest.approx(1.5)
        assert evidence["largest"] == value

    def test_among_sound_groups(self):
        rng = np.random.default_rng(0)
        rewards = (rng.random((50, 4)) < 0.5).astype(float)
        rewards = rewards[rewards.min(axis=1) < rewards.max(axis=1)]
        advantage = rewards - rewards.mean(axis=1, keepdims=True)
        advantage /= rewards.std(axis=1, ddof=1, keepdims=True)
        assert "impossible-advantage" not in rules(
            bt.diagnose(bt.Groups.from_dense(rewards, advantage=advantage))
        )
        lone = np.flatnonzero(rewards.sum(axis=1) == 1)[0]
        advantage[lone, rewards[lone].argmax()] = 1e6
        found = bt.diagnose(bt.Groups.from_dense(rewards, advantage=advantage))
        assert the(found, "impossible-advantage").evidence["groups"] == 1


class TestA6UnevenGroups:
    rewards = ([1, 0, 1, 0], [5, 5, 5], [2, 4, 2, 4])

    def test_the_second_group_is_tied(self):
        groups = bt.Groups.from_nested(self.rewards)
        assert bt.diagnose(groups).measures["acr"] == pytest.approx(1 / 3)
        assert (bt.estimator("grpo")(groups)[4:7] == 0).all()

    @pytest.mark.parametrize("whole", [True, False])
    def test_logged_over_the_flat_batch(self, whole):
        mean = np.concatenate(self.rewards).mean()
        flat = [[r - mean for r in row] for row in self.rewards]
        assert flat[1][0] == pytest.approx(2.364, abs=1e-3)
        if not whole:
            flat[0], flat[2] = [1, -1, 1, -1], [-1, 1, -1, 1]
        found = bt.diagnose(bt.Groups.from_nested(self.rewards, advantage=flat))
        assert "flat batch" in the(found, "broken-grouping").message
        # the grouping of the log is right, so the rate stands
        assert found.measures["acr"] == pytest.approx(1 / 3)

    def test_group_mean_over_batch_deviation_is_another_thing(self):
        deviation = np.concatenate(self.rewards).std(ddof=1)
        scaled = [[(r - np.mean(row)) / deviation for r in row] for row in self.rewards]
        found = bt.diagnose(bt.Groups.from_nested(self.rewards, advantage=scaled))
        assert "broken-grouping" not in rules(found)


class TestA7EveryGroupASingleton:
    def test_four_ids_of_one_prompt(self):
        groups = bt.Groups.from_flat([1, 0, 1, 0], ["a", "b", "c", "d"], prompt_id=["p"] * 4)
        found = bt.diagnose(groups)
        assert "broken-grouping" in loud(found)
        assert found.measures["acr"] is None
        assert found.verdict == "undefined"


class TestA8InterleavedRows:
    rewards = (1, 0) * 4
    prompts = ("p1", "p2") * 4

    def test_grouped_by_key(self):
        found = bt.diagnose(bt.Groups.from_flat(list(self.rewards), list(self.prompts)))
        assert found.measures["acr"] == 1
        assert "broken-grouping" not in rules(found)

    def test_a_reshape_is_refused(self):
        groups = bt.Groups.from_flat(
            list(self.rewards), [0] * 4 + [1] * 4, prompt_id=list(self.prompts)
        )
        assert bt.collapse_rate(groups) == 0
        found = bt.diagnose(bt.Run(groups, facts=LogFacts(grouped_by="position")))
        assert found.measures["acr"] is None
        assert found.verdict == "undefined"
        assert "interleaved" in the(found, "broken-grouping").message


class TestA9NullRewards:
    def test_two_scorable_and_tied(self):
        found = bt.diagnose(bt.Groups.from_nested([[None, -1, -1, None]]))
        assert found.measures["acr"] == 1
        assert found.measures["rollouts"]["unscorable"] == 2
        assert the(found, "unscorable-rewards").evidence["share"] == 0.5

    def test_all_null_is_not_all_wrong(self):
        found = bt.diagnose(bt.Groups.from_nested([[None] * 4]))
        assert found.measures["groups"]["unscorable"] == 1
        assert found.measures["groups"]["all_wrong"] == 0
        assert rules(found) == ["unscorable-rewards"]
        assert found.verdict == "undefined"


class TestA10CorrectnessDeadUnderALiveFormat:
    @pytest.mark.parametrize("named", [True, False])
    def test_total_mixed(self, named):
        form = [[0.1, 0, 0.1, 0.1]]
        columns = {"reward/format": form} if named else {}
        found = bt.diagnose(bt.Groups.from_nested(form, correct=[[0] * 4], **columns))
        assert found.measures["acr"] == 0
        assert found.measures["acr_by_reward"]["correct"] == 1
        assert the(found, "component-collapse").severity.label == "error"
        assert found.verdict == "collapsed"


class TestA11PhantomSignal:
    def test_a_length_penalty_alone(self):
        penalty = [[0, -0.2, -0.5, -1]]
        groups = bt.Groups.from_nested(
            penalty, correct=[[0] * 4], **{"reward/length_penalty": penalty}
        )
        found = bt.diagnose(groups)
        assert found.measures["acr_by_reward"] == {
            "reward": 0,
            "correct": 1,
            "reward/length_penalty": 0,
        }
        phantom = the(found, "phantom-signal")
        assert phantom.evidence["mean_range"] == 1
        assert "filter groups on correctness" in phantom.advice[0].action


class TestA12WouldALargerGroupHelp:
    def groups(self, rate):
        rng = np.random.default_rng(0)
        rewards = (rng.random((800, 16)) < np.resize(rate, 800)[:, None]).astype(float)
        return bt.Groups.from_dense(rewards)

    def test_half_of_the_prompts_are_out_of_reach(self):
        floor = the(bt.diagnose(self.groups([0.0, 0.364])), "group-size-floor").evidence
        assert floor["floor"] == pytest.approx(0.5, abs=0.03)
        assert floor["tied"] == pytest.approx([0.77, 0.59, 0.51, 0.50], abs=0.03)

    def test_equal_prompts(self):
        assert "group-size-floor" not in rules(bt.diagnose(self.groups([0.18])))


class TestA13StallForecast:
    def run(self, live):
        rewards = [[0, 1, 0, 1]] * live + [[0] * 4] * (48 - live)
        settings = {"live_groups": 32, "generation_batch": 48, "max_generation_batches": 10}
        return bt.Run(bt.Groups.from_nested(rewards), facts=LogFacts(**settings))

    def test_eleven_batches_against_a_limit_of_ten(self):
        evidence = the(bt.diagnose(self.run(3)), "resampling-stall").evidence
        assert (evidence["batches"], evidence["limit"]) == (11, 10)
        low, high = evidence["batches_interval"]
        assert low < 11 < high

    def test_enough_live_groups(self):
        assert "resampling-stall" not in rules(bt.diagnose(self.run(24)))


class TestA14FilteredLog:
    def test_varying_numbers_of_mixed_groups(self):
        rng = np.random.default_rng(0)
        rate = rng.beta(0.6, 0.6, 320)
        rewards = (rng.random((320, 8)) < rate[:, None]).astype(float)
        kept = rewards.min(axis=1) < rewards.max(axis=1)
        step = np.repeat(np.arange(20), 16)
        found = bt.diagnose(bt.Groups.from_dense(rewards[kept], step=step[kept]))
        assert "filtered-log" in loud(found)
        assert found.measures["acr"] is None
        assert "filtered" in found.measures["acr_undefined"]
        assert found.verdict == "undefined"

    def test_fewer_than_configured(self):
        groups = bt.Groups.from_nested([[1, 0, 1, 0]] * 9, step=np.repeat([1, 2, 3], 3))
        found = bt.diagnose(bt.Run(groups, facts=LogFacts(groups_per_step=4)))
        assert the(found, "filtered-log").evidence["missing"] == 3
        assert found.measures["acr"] is None

    def test_the_unfiltered_log_is_none(self):
        rng = np.random.default_rng(0)
        rewards = (rng.random((320, 8)) < rng.beta(0.6, 0.6, 320)[:, None]).astype(float)
        found = bt.diagnose(bt.Groups.from_dense(rewards, step=np.repeat(np.arange(20), 16)))
        assert "filtered-log" not in rules(found)
        assert found.measures["acr"] > 0.2


class TestA15DumpsThatLoseOrRepeat:
    def test_half_of_the_generations(self):
        found = bt.diagnose(bt.read(DATA / "trl_every_second"))
        assert the(found, "partial-log").evidence["logged_every"] == 2
        assert loud(found) == []

    def test_one_generation_under_several_steps(self):
        found = bt.diagnose(bt.read(DATA / "trl_rewritten"))
        partial = the(found, "partial-log").evidence
        assert partial["repeated"] > 0
        assert partial["kept"] == found.run.groups.n_samples

    def test_said_of_any_run(self):
        groups = bt.Groups.from_dense(np.tile([0.0, 1.0], (20, 4)))
        found = bt.diagnose(bt.Run(groups, facts=LogFacts(logged_every=4, repeated=96)))
        assert rules(found) == ["partial-log", "partial-log"]
        assert found.verdict == "healthy"

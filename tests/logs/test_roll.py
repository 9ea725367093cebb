"""ROLL's dumps of RLVR and agentic pipelines, written to its schema."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from tests.logs import frameworks
from tests.logs.frameworks import TABLE, roll_line
from tests.logs.writing import jsonl, write


def dump(folder, step: int = 1, **more):
    path = folder / f"rollout_dump_data.step_{step}.jsonl"
    return write(path, [roll_line(step=step, **more)])


class TestRlvr:
    def test_columns(self, tmp_path):
        for step in (1, 2):
            dump(tmp_path, step)
        run = bt.read(tmp_path)
        groups = run.groups
        assert (run.source.format, run.problems, run.facts.grouped_by) == ("roll", (), "key")
        assert groups.step.tolist() == [1, 1, 2, 2]
        assert groups.rewards.tolist() == [0, 1, 0, 1, 1, 1, 1, 1] * 2
        assert groups.group_id[0] == "math_rule/row-a"
        assert groups.prompt_id.tolist() == ["math_rule/row-a", "math_rule/row-b"] * 2
        assert groups.columns["sample"].tolist() == [0, 1, 2, 3] * 4
        assert not {"length", "truncated", "correct", "advantage"} & groups.columns.keys()

    def test_texts_come_back(self, tmp_path):
        dump(tmp_path)
        run = bt.read(tmp_path)
        assert run.texts([7, 0]) == [("What is b?", "b/3 at 1"), ("What is a?", "a/0 at 1")]

    def test_one_id_in_two_domains(self, tmp_path):
        dump(tmp_path, id=["7"] * 8, domain=["math"] * 4 + ["code"] * 4)
        groups = bt.read(tmp_path).groups
        assert groups.group_id.tolist() == ["math/7", "code/7"]

    def test_one_row_drawn_twice(self, tmp_path):
        table = {"a": TABLE["a"], "b": TABLE["b"], "c": TABLE["a"]}
        path = tmp_path / "rollout_dump_data.step_1.jsonl"
        write(path, [roll_line(table, id=["1"] * 4 + ["2"] * 4 + ["1"] * 4)])
        groups = bt.read(tmp_path).groups
        assert groups.sizes.tolist() == [4, 4, 4]
        assert groups.prompt.tolist() == [0, 1, 0]

    def test_rows_of_a_group_apart(self, tmp_path):
        dump(tmp_path, id=["1", "2"] * 4)
        assert bt.read(tmp_path).groups.sizes.tolist() == [4, 4]

    @pytest.mark.parametrize("more", [{"id": None}, {"id": [None] * 8}])
    def test_without_ids_the_prompts_tell_and_that_is_said(self, tmp_path, more):
        dump(tmp_path, **more)
        run = bt.read(tmp_path)
        assert run.groups.sizes.tolist() == [4, 4]
        assert any("no column id" in one.message for one in run.problems)

    def test_the_step_of_the_name(self, tmp_path):
        dump(tmp_path, 12, global_step=None)
        assert set(bt.read(tmp_path).groups.step.tolist()) == {12}

    def test_under_another_name(self, tmp_path):
        path = write(tmp_path / "a.jsonl", [roll_line()])
        assert bt.read(path).source.format == "roll"

    def test_a_line_beyond_the_head_and_the_usual_limit(self, tmp_path, monkeypatch):
        monkeypatch.setattr("buttress.logs.files.HEAD_LIMIT", 1 << 16)
        monkeypatch.setattr("buttress.logs.formats.lines.LINE_LIMIT", 1 << 18)
        dump(tmp_path, responses=["x" * 100_000] * 8)
        run = bt.read(tmp_path)
        assert (run.groups.n_samples, run.problems) == (8, ())

    def test_recognised(self, tmp_path):
        frameworks.refuses_others("roll", tmp_path)

    def test_the_command(self, tmp_path, capsys):
        for step in (1, 2, 3):
            dump(tmp_path, step)
        found = frameworks.diagnosed(capsys, tmp_path)
        assert found["source"]["format"] == "roll"
        assert found["measures"]["acr"] == 0.5
        assert found["measures"]["groups"]["all_correct"] == 3


def agentic(reward: float, env: int, group: int = 0, seed: int = 5, **more) -> str:
    messages = [
        {"role": "user", "content": f"task {seed}"},
        {"role": "assistant", "content": f"answer {env}"},
        {"role": "tool", "content": "seen"},
        {"role": "assistant", "content": "done"},
    ]
    found = {
        "trajectory_id": f"swe_1_2_{group}_{env}_0_{seed}_20260101_000000_000001",
        "env_info": {
            "env_id": env,
            "group_id": group,
            "tag": "swe",
            "seed": seed,
            "episode_id": 0,
            "mode": "train",
        },
        "length_info": {"truncated": False, "response_length": 12.0},
        "reward_info": {"episode_reward": reward, "step_rewards": [0, reward]},
        "failure_info": {"stop_reason": "FINISH"},
        "messages": messages,
    } | more
    return json.dumps(found)


def agentic_line(items: list, step: int = 3) -> dict:
    return {
        "trajectory_data": items,
        "messages": [None] * len(items),
        "tools": [None] * len(items),
        "exp_name": ["x"] * len(items),
        "global_step": [step] * len(items),
    }


class TestAgentic:
    def read(self, tmp_path, items) -> bt.Run:
        path = tmp_path / "rollout_dump_data.step_3.jsonl"
        return bt.read(write(path, [agentic_line(items)]))

    def test_columns(self, tmp_path):
        capped = {"failure_info": {"stop_reason": "MAX_LENGTH"}}
        items = [
            agentic(1.0, 0),
            None,
            agentic(0.0, 1, **capped),
            agentic(0.0, 2, group=1, seed=6),
            agentic(0.0, 3, group=1, seed=6),
        ]
        run = self.read(tmp_path, items)
        groups = run.groups
        assert (run.source.format, run.problems) == ("roll", ())
        assert groups.group_id.tolist() == ["swe_0_0_5", "swe_1_0_6"]
        assert groups.prompt_id.tolist() == ["swe/5", "swe/6"]
        assert groups.step.tolist() == [3, 3]
        assert groups.rewards.tolist() == [1, 0, 0, 0]
        assert groups.columns["truncated"].tolist() == [0, 1, 0, 0]
        assert run.texts([1])[0] == ("task 5", "answer 1\nseen\ndone")

    def test_the_other_manager_names_the_group_in_the_id(self, tmp_path):
        items = [
            agentic(
                1.0,
                env,
                env_info={},
                trajectory_id=f"harbor_3_0_77_{env}_20260101_000000_123456{branch}",
                reward_info={"episode_reward": 1.0, "step_reward": float(env)},
            )
            for env, branch in [(0, ""), (1, "_b0"), (2, "_b1")]
        ]
        groups = self.read(tmp_path, items).groups
        assert groups.group_id.tolist() == ["harbor_3_0_77"]
        assert groups.prompt_id.tolist() == ["harbor/77"]
        assert groups.rewards.tolist() == [0, 1, 2]

    def test_evaluations_stay_out(self, tmp_path):
        env = json.loads(agentic(1.0, 0))["env_info"] | {"mode": "val"}
        run = self.read(tmp_path, [agentic(1.0, 0), agentic(0.0, 1, env_info=env)])
        assert run.groups.n_samples == 1
        assert any("evaluations" in one for one in run.source.inferred)

    @pytest.mark.parametrize("item", ["{", "text", 7, [], '{"env_info": 3}', '{"reward_info": []}'])
    def test_broken_trajectories(self, tmp_path, item):
        run = self.read(tmp_path, [agentic(1.0, 0), item, agentic(0.0, 1)])
        assert run.groups.n_samples == 2
        assert run.facts.unreadable == 1
        assert [one.line for one in run.problems] == [1]
        assert run.texts([1])[0].completion == "answer 1\nseen\ndone"

    def test_a_trajectory_without_anything(self, tmp_path):
        run = self.read(tmp_path, ["{}", "{}"])
        assert np.isnan(run.groups.rewards).all()
        bt.diagnose(run)


class TestDamage:
    NAME = "rollout_dump_data.step_1.jsonl"

    def test_a_file_may_end_anywhere(self, tmp_path):
        def check(part: bytes) -> None:
            run = frameworks.survives(tmp_path, self.NAME, part)
            if run is not None:
                assert run.groups.n_samples in (0, 8)
                assert run.problems if run.groups.n_samples == 0 else True

        frameworks.every_cut(jsonl([roll_line()]), check)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"scores": ["good"] + [1.0] * 7}, "reward is not a number: 'good'"),
            ({"scores": [10**400] + [1.0] * 7}, "beyond the range of a float"),
            ({"scores": [1e999] + [1.0] * 7}, "reward is infinite"),
            ({"scores": [1.0] * 3}, "scores has 3 values for 8 rollouts"),
            ({"scores": None}, None),
            ({"scores": [float("nan")] * 8}, None),
            ({"global_step": ["soon"] * 8}, "step is not a number"),
            ({"domain": ["math"]}, "domain has 1 values for 8 rollouts"),
            ({"prompt": "p"}, None),
            ({"responses": "text"}, None),
            ({"id": [{"a": 1}] * 8}, None),
            ({"id": 7}, None),
        ],
    )
    def test_wrong_values(self, tmp_path, change, message):
        run = bt.read(dump(tmp_path, **change))
        assert run.groups.n_samples == 8
        if message:
            assert (1, True) in [(one.line, message in one.message) for one in run.problems]
        bt.diagnose(run)

    @pytest.mark.parametrize("text", ["", "\n", "[]", "{}", '{"responses": []}', "nonsense"])
    def test_nothing_in_it(self, tmp_path, text):
        run = frameworks.survives(tmp_path, self.NAME, text.encode())
        assert run is None or (run.groups.n_samples == 0 and run.problems)

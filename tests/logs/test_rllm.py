"""rLLM's episodes, written to its schema."""

from __future__ import annotations

import json

import numpy as np
import pytest

import buttress as bt
from tests.logs import frameworks
from tests.logs.frameworks import TABLE, episode, trajectory, write_episodes

NAME = "episodes/train_step_1_epoch_0/episode_hash0000_ida_0.json"


def write(folder, found, number: int = 0, step: int = 1):
    path = folder / f"episodes/train_step_{step}_epoch_0/episode_hash0000_ida_{number}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")
    return path


class TestEpisodes:
    def test_columns(self, tmp_path):
        for step in (1, 2):
            write_episodes(tmp_path, step=step)
        run = bt.read(tmp_path)
        groups = run.groups
        assert (run.source.format, run.problems, run.facts.grouped_by) == ("rllm", (), "key")
        assert groups.step.tolist() == [1, 1, 2, 2]
        assert groups.group_id.tolist() == ["a:solver", "b:solver"] * 2
        assert groups.rewards.tolist() == [0, 1, 0, 1, 1, 1, 1, 1] * 2
        assert groups.columns["correct"].tolist() == groups.rewards.tolist()
        assert groups.columns["sample"].tolist() == [0, 1, 2, 3] * 4
        assert groups.columns["truncated"].tolist() == [0] * 16
        assert groups.prompt.tolist() == [0, 1, 0, 1]
        assert not any("folders" in one for one in run.source.inferred)

    def test_texts_come_back(self, tmp_path):
        write_episodes(tmp_path)
        assert bt.read(tmp_path).texts([7, 0]) == [
            ("What is b?", "b/3 at 1"),
            ("What is a?", "a/0 at 1"),
        ]

    def test_validations_stay_out(self, tmp_path):
        write_episodes(tmp_path)
        write_episodes(tmp_path, {"c": [1.0] * 3}, mode="val")
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 8
        ((message,),) = [[one.message] for one in run.problems]
        assert "validations (3 files)" in message
        assert bt.read(tmp_path / "episodes/val_step_1_epoch_0").groups.n_samples == 3

    def test_trajectories_of_one_name_are_compared(self, tmp_path):
        for number in range(2):
            several = [
                trajectory(f"{number}/a", 1.0),
                trajectory(f"{number}/b", 0.0),
                trajectory(f"{number}/judge", 0.5, "judge"),
            ]
            write(tmp_path, episode("a", number, trajectories=several), number)
        run = bt.read(tmp_path)
        sizes = dict(zip(run.groups.group_id, run.groups.sizes.tolist(), strict=True))
        assert sizes == {"a:solver": 4, "a:judge": 2}
        # is_correct speaks of the episode and not of a solver
        assert np.isnan(run.groups.columns.get("correct", np.array([np.nan]))).all()
        assert any("is_correct" in one for one in run.source.inferred)
        assert run.texts([0, 5])[1].completion == "1/judge"

    def test_unnamed_trajectories_are_told_by_their_place(self, tmp_path):
        for number in range(2):
            pair = [trajectory(f"{number}/{at}", 1.0, "default_traj_name") for at in range(2)]
            write(tmp_path, episode("a", number, trajectories=pair), number)
        groups = bt.read(tmp_path).groups
        assert groups.group_id.tolist() == ["a:default_traj_name_0", "a:default_traj_name_1"]

    def test_a_trajectory_without_steps_is_left_out(self, tmp_path):
        write(tmp_path, episode(trajectories=[trajectory("x", 1.0, steps=[])]), 0)
        write(tmp_path, episode(number=1), 1)
        assert bt.read(tmp_path).groups.n_samples == 1

    def test_the_reward_of_the_last_step(self, tmp_path):
        one = trajectory("x", None)
        one["steps"] = [one["steps"][0] | {"reward": value} for value in (0.5, 0.25)]
        write(tmp_path, episode(trajectories=[one]))
        run = bt.read(tmp_path)
        assert run.groups.rewards.tolist() == [0.25]
        assert any("last step" in one for one in run.source.inferred)

    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("max_response_length_exceeded", 1.0),
            ("max_prompt_length_exceeded", 1.0),
            ("env_done", 0.0),
            ("max_turns_exceeded", 0.0),
            ("error", None),
            (None, None),
            (3, None),
        ],
    )
    def test_why_it_ended(self, tmp_path, reason, expected):
        write(tmp_path, episode(termination_reason=reason))
        found = bt.read(tmp_path).groups.columns.get("truncated", np.array([np.nan]))
        assert found.tolist() == [expected] or (expected is None and np.isnan(found).all())

    def test_recognised(self, tmp_path):
        frameworks.refuses_others("rllm", tmp_path)

    def test_recognised_under_another_name(self, tmp_path):
        path = tmp_path / "one.json"
        path.write_text(json.dumps(episode(), indent=2))
        assert bt.read(path).source.format == "rllm"

    def test_the_command(self, tmp_path, capsys):
        for step in (1, 2, 3):
            write_episodes(tmp_path, step=step)
        found = frameworks.diagnosed(capsys, tmp_path)
        assert (found["source"]["format"], found["source"]["rollouts"]) == ("rllm", 24)
        assert found["measures"]["acr"] == 0.5
        assert found["measures"]["groups"] == {
            "mixed": 3,
            "all_wrong": 0,
            "all_correct": 3,
            "tied_between": 0,
            "near_tied": 0,
            "unscorable": 0,
            "singleton": 0,
        }


class TestDamage:
    def test_a_file_may_end_anywhere(self, tmp_path):
        write_episodes(tmp_path, {"b": [1.0, 0.0]})
        data = json.dumps(episode(), indent=2).encode()

        def check(part: bytes) -> None:
            path = tmp_path / NAME
            path.write_bytes(part)
            run = bt.read(tmp_path)
            assert run.groups.n_samples == 2
            (problem,) = run.problems
            assert problem.file == str(path)

        frameworks.every_cut(data, check)

    def test_a_cut_off_file(self, tmp_path):
        write_episodes(tmp_path, {"b": [1.0, 0.0]})
        (tmp_path / NAME).write_bytes(json.dumps(episode(), indent=2).encode()[:-40])
        run = bt.read(tmp_path)
        assert run.facts.unreadable == 1
        assert run.problems[0].message.startswith("the file is cut off")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"trajectories": [trajectory("x", "good")]}, "reward is not a number: 'good'"),
            ({"trajectories": [trajectory("x", 10**400)]}, "beyond the range of a float"),
            ({"trajectories": [trajectory("x", 1e999)]}, "reward is infinite"),
            ({"trajectories": [trajectory("x", float("nan"))]}, None),
            ({"trajectories": [trajectory("x", None)]}, None),
            ({"trajectories": {}}, "not an rLLM episode"),
            ({"trajectories": [3]}, "not an rLLM episode"),
            ({"trajectories": []}, None),
            ({"trajectories": [trajectory("x", 1.0, steps=[{}])]}, None),
            ({"training_step": "soon"}, "step is not a number"),
            ({"training_step": None}, "no step"),
            ({"episode_id": None}, None),
            ({"episode_id": 7}, None),
            ({"task": "plain"}, None),
            ({"task": [1, {"a": 2}]}, None),
            ({"task_hash": None}, None),
            ({"is_correct": "yes"}, "correct is not a number"),
        ],
    )
    def test_wrong_values(self, tmp_path, change, message):
        write_episodes(tmp_path, {"b": [1.0, 0.0]})
        path = write(tmp_path, episode() | change)
        run = bt.read(tmp_path)
        assert run.groups.n_samples >= 2
        found = [(one.file, one.message) for one in run.problems]
        if message:
            assert [file for file, text in found if message in text] == [str(path)]
        bt.diagnose(run)

    @pytest.mark.parametrize("name", sorted(episode()))
    def test_missing_columns(self, tmp_path, name):
        write_episodes(tmp_path, TABLE)
        found = episode()
        del found[name]
        write(tmp_path, found)
        run = bt.read(tmp_path)
        assert run.groups.n_samples >= 8
        bt.diagnose(run)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", "null"])
    def test_nothing_in_it(self, tmp_path, text):
        run = frameworks.survives(tmp_path, NAME, text.encode())
        assert run is None or run.groups.n_samples == 0


def test_thousands_of_episodes_cost_their_numbers(tmp_path):
    # more files than are joined at a time, with columns that come and go between them
    for number in range(1500):
        found = episode("ab"[number // 750], number % 750, float(number % 3 == 0))
        if number % 500 == 0:
            found["trajectories"][0]["reward"] = None
            found["trajectories"][0]["steps"][0]["reward"] = None
        write(tmp_path, found, number)
    run = bt.read(tmp_path)
    assert run.groups.sizes.tolist() == [750, 750]
    expected = [np.nan if at % 500 == 0 else float(at % 3 == 0) for at in range(1500)]
    np.testing.assert_array_equal(run.groups.rewards, expected)
    assert len(set(run.groups.columns["completion"].tolist())) == 1500

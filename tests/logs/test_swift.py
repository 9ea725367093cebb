"""ms-swift's completions: runs of the real software, and what may be wrong with a line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.measures import collapse_rate
from tests.logs import frameworks
from tests.logs.frameworks import swift_line
from tests.logs.writing import jsonl, write

DATA = Path(__file__).parent / "data"


def lines_of(folder: str) -> list[dict]:
    text = (DATA / folder / "completions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def totals(line: dict, weights=(1.0, 1.0)) -> list[float]:
    parts = np.array([line["Right"], line["Short"]], dtype=float)
    assert not np.isnan(parts).all(axis=0).any()
    return np.nansum(parts * np.array(weights)[:, None], axis=0).tolist()


def read(tmp_path, *lines: dict, **settings) -> bt.Run:
    path = write(tmp_path / "completions.jsonl", lines)
    if settings:
        (tmp_path / "args.json").write_text(json.dumps(settings))
    return bt.read(path)


class TestRealRuns:
    @pytest.mark.parametrize(
        ("folder", "kept", "weights"),
        [
            ("swift_plain", [0, 1, 2, 3], (1, 0.5)),
            ("swift_repeated", [0, 2], (1, 1)),
            ("swift_evaluated", [0, 1, 3, 4], (1, 1)),
            ("swift_dynamic", [0, 1, 2, 3], (1, 1)),
        ],
    )
    def test_each_training_rollout_once(self, folder, kept, weights):
        run = bt.read(DATA / folder)
        lines = [lines_of(folder)[at] for at in kept]
        assert (run.source.format, run.problems) == ("ms-swift", ())
        assert run.groups.sizes.tolist() == [4] * 2 * len(kept)
        assert run.groups.step.tolist() == [int(line["step"][0]) for line in lines for _ in "ab"]
        expected = [one for line in lines for one in totals(line, weights)]
        assert run.groups.rewards.tolist() == pytest.approx(expected)
        for name, column in (("Right", "Right"), ("Short", "Short")):
            given = [one for line in lines for one in line[column]]
            np.testing.assert_array_equal(run.groups.columns[f"reward/{name}"], given)
        advantages = [one for line in lines for one in line["advantages"]]
        assert run.groups.columns["advantage"].tolist() == advantages
        assert run.facts.group_size == 4
        assert run.facts.grouped_by == "position"

    def test_the_measures_are_those_of_the_trainer(self):
        run = bt.read(DATA / "swift_plain")
        logged = run.scalars["frac_reward_zero_std"].value
        by_step = [
            collapse_rate(run.groups.select(run.groups.step == step)) for step in (1, 2, 3, 4)
        ]
        assert by_step == logged[:4].tolist()

    def test_what_is_said(self):
        said = " ".join(bt.read(DATA / "swift_repeated").source.inferred)
        assert "16 rollouts stand in more than one line" in said
        said = " ".join(bt.read(DATA / "swift_evaluated").source.inferred)
        assert "8 rollouts of evaluations were left out" in said
        assert bt.read(DATA / "swift_plain").facts.repeated == 0

    def test_dynamic_sampling_is_a_filter(self, capsys):
        found = frameworks.diagnosed(capsys, DATA / "swift_dynamic")
        assert found["measures"]["acr"] is None
        assert "filtered-log" in [one["rule"] for one in found["findings"]]
        assert not bt.read(DATA / "swift_plain").facts.filtered

    def test_texts_come_back(self):
        run = bt.read(DATA / "swift_repeated")
        lines = [lines_of("swift_repeated")[at] for at in (0, 2)]
        texts = run.texts([*range(16)][::-1])[::-1]
        assert [one.completion for one in texts] == [
            one for line in lines for one in line["completion"]
        ]
        assert [one.prompt for one in texts] == [one for line in lines for one in line["prompt"]]

    def test_without_the_arguments(self, tmp_path):
        for name in ("completions.jsonl", "logging.jsonl"):
            shutil.copy(DATA / "swift_plain" / name, tmp_path / name)
        run = bt.read(tmp_path)
        named = bt.read(DATA / "swift_plain")
        assert run.groups.sizes.tolist() == named.groups.sizes.tolist()
        # the weight of 0.5 is found from the logged means
        assert run.groups.rewards.tolist() == pytest.approx(named.groups.rewards.tolist())
        ((file, message),) = [(one.file, one.message) for one in run.problems]
        assert file.endswith("completions.jsonl")
        assert "every 4 consecutive rows" in message
        assert "--group-size" in message

    def test_a_group_size_that_is_given(self, tmp_path):
        path = shutil.copy(DATA / "swift_plain/completions.jsonl", tmp_path)
        run = bt.read(path, group_size=2)
        assert set(run.groups.sizes.tolist()) == {2}
        assert run.problems == ()

    def test_two_runs(self):
        run = bt.read([DATA / "swift_plain", DATA / "swift_repeated"])
        assert run.groups.n_samples == 32 + 16
        assert any("2 runs were read together" in one.message for one in run.problems)

    def test_the_command(self, capsys):
        found = frameworks.diagnosed(capsys, DATA / "swift_plain")
        assert found["source"]["format"] == "ms-swift"
        assert found["source"]["rollouts"] == 32
        assert found["measures"]["acr"] == 0.125
        assert found["measures"]["acr_by_reward"]["reward/Right"] == 0.625
        assert found["problems"] == []


class TestLines:
    def test_the_format_is_recognised_and_others_are_not(self, tmp_path):
        frameworks.refuses_others("ms-swift", tmp_path)

    def test_a_first_line_that_is_longer_than_the_head(self, tmp_path, monkeypatch):
        monkeypatch.setattr("buttress.logs.files.HEAD_LIMIT", 1 << 16)
        line = swift_line() | {"completion": ["x" * 20_000] * 8}
        assert read(tmp_path, line, num_generations=4).groups.n_samples == 8

    def test_megatron_names_its_step_otherwise(self, tmp_path):
        line = {("gen_step" if name == "step" else name): one for name, one in swift_line().items()}
        line["gen_step"] = [3] * 8
        run = read(tmp_path, line, num_generations=4)
        assert run.groups.step.tolist() == [3, 3]
        assert run.problems == ()

    def test_a_line_that_waited_for_the_entropies(self, tmp_path):
        whole = swift_line()
        half = {name: column[:3] for name, column in whole.items()}
        run = read(tmp_path, half, whole | {"step": ["2"] * 8}, num_generations=4)
        assert (run.groups.n_samples, run.groups.step.tolist()) == (8, [1, 1])

    def test_a_restart_keeps_its_groups_apart(self, tmp_path):
        first = [swift_line(step=step) for step in (1, 2)]
        again = swift_line({"a": [0, 0, 0, 1], "c": [1, 0, 0, 0]}, step=1)
        run = read(tmp_path, *first, again, num_generations=4)
        assert run.groups.step.tolist() == [1, 1, 1, 1, 2, 2]
        assert run.groups.sizes.tolist() == [4] * 6
        assert any("restart" in one for one in run.source.inferred)

    def test_equal_generations_are_told_by_the_log(self, tmp_path):
        lines = [swift_line(), swift_line() | {"step": ["2"] * 8}]
        assert read(tmp_path, *lines, num_generations=4).groups.n_samples == 8
        logged = [
            {"loss": 0.1, "reward": 0.5, "rewards/Right/mean": 0.5, "global_step/max_steps": step}
            for step in ("1/2", "2/2")
        ]
        write(tmp_path / "logging.jsonl", logged)
        assert read(tmp_path, *lines, num_generations=4).groups.n_samples == 16

    def test_nulls_stay_null(self, tmp_path):
        line = swift_line({"a": [None, 1.0, float("nan"), 0.0]})
        run = read(tmp_path, line, num_generations=4)
        np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1, np.nan, 0])
        assert any("ms-swift counts them as 0" in one for one in run.source.inferred)

    def test_the_weights_of_the_arguments(self, tmp_path):
        line = swift_line({"a": [0.0, 1.0, 0.0, 1.0]})
        line = {
            "step": line["step"],
            "prompt": line["prompt"],
            "completion": line["completion"],
            "Right": line["Right"],
            "Brief": [1.0, None, 0.0, 0.5],
            "advantages": line["advantages"],
        }
        run = read(tmp_path, line, num_generations=4, reward_weights=[2, 0.5])
        assert run.groups.rewards.tolist() == [0.5, 2.0, 0.0, 2.25]
        run = read(tmp_path, line, num_generations=4, reward_weights=None)
        assert run.groups.rewards.tolist() == [1.0, 1.0, 0.0, 1.5]

    def test_extra_columns_are_no_rewards(self, tmp_path):
        line = swift_line() | {"num_turns": [2] * 8, "solution": ["4"] * 8, "entropy": [None] * 8}
        run = read(tmp_path, line, num_generations=4)
        assert run.problems == ()
        assert [name for name in run.groups.columns if name.startswith("reward/")] == [
            "reward/Right"
        ]
        mapped = bt.read(tmp_path / "completions.jsonl", map={"length": "num_turns"})
        assert set(mapped.groups.columns["length"].tolist()) == {2.0}


class TestDamage:
    def test_a_file_may_end_anywhere(self, tmp_path):
        data = jsonl([swift_line(step=1), swift_line(step=2)])

        def check(part: bytes) -> None:
            run = frameworks.survives(tmp_path, "completions.jsonl", part)
            if run is not None and run.groups.n_samples:
                assert run.groups.n_samples in (8, 16)

        frameworks.every_cut(data, check)

    def test_a_truncated_last_line(self, tmp_path):
        data = jsonl([swift_line(step=1), swift_line(step=2)])[:-30]
        run = frameworks.survives(tmp_path, "completions.jsonl", data)
        assert run.groups.n_samples == 8
        problem = next(one for one in run.problems if "cut off" in one.message)
        assert (problem.line, run.facts.unreadable) == (2, 8)

    @pytest.mark.parametrize(
        ("change", "line", "message"),
        [
            ({"Right": ["good"] * 8}, 2, "Right is not a number: 'good'"),
            ({"Right": [10**400] * 8}, 2, "beyond the range of a float"),
            ({"Right": [1e999] * 8}, 2, "Right is infinite"),
            ({"advantages": [1.0] * 7}, 2, "advantages has 7 values for 8 rollouts"),
            ({"advantages": ["x"] * 8}, 2, "advantage"),
            ({"prompt": ["p"] * 3}, 2, "prompt has 3 values for 8 rollouts"),
            ({"step": ["soon"] * 8}, 2, "step is no whole number"),
            ({"completion": "text"}, 2, "no list of completions"),
            ({"completion": []}, 2, "no list of completions"),
        ],
    )
    def test_wrong_values(self, tmp_path, change, line, message):
        run = read(tmp_path, swift_line(step=1), swift_line(step=2) | change, num_generations=4)
        found = [(one.line, one.message) for one in run.problems if message in one.message]
        assert found
        assert found[0][0] == line
        assert run.groups.n_samples >= 8
        bt.diagnose(run)

    @pytest.mark.parametrize("name", ["advantages", "prompt", "Right"])
    def test_missing_columns(self, tmp_path, name):
        lines = [swift_line(step=step) for step in (1, 2)]
        for line in lines[1:]:
            del line[name]
        run = read(tmp_path, *lines, num_generations=4)
        assert run.groups.n_samples == 16
        bt.diagnose(run)

    @pytest.mark.parametrize("text", ["", "\n\n", "[1]", "{}", '{"step": 1}'])
    def test_nothing_in_it(self, tmp_path, text):
        run = frameworks.survives(tmp_path, "completions.jsonl", text.encode())
        assert run is None or run.groups.n_samples == 0

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"num_generations": "many"}', "\xff"])
    def test_arguments_that_are_none(self, tmp_path, text):
        path = write(tmp_path / "completions.jsonl", [swift_line()])
        (tmp_path / "args.json").write_text(text, encoding="latin-1")
        run = bt.read(path)
        assert run.groups.sizes.tolist() == [4, 4]
        assert any("name the groups" in one.message for one in run.problems)

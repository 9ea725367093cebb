"""verifiers' episodes, written by its own models, and the results of its older environments."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError
from tests.logs import dumps
from tests.logs.writing import write

FILE = Path(__file__).parent / "data" / "verifiers_eval" / "traces.jsonl"
EPISODES = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
TRACED = [one for one in EPISODES if one["traces"]]


def trace_of(episode: dict, **changes) -> dict:
    """Return an episode with another first trace."""
    return episode | {"traces": [episode["traces"][0] | changes]}


class TestEpisodes:
    def test_fixture(self):
        run = bt.read(FILE)
        groups = run.groups
        assert (run.source.format, run.facts.grouped_by) == ("verifiers", "key")
        assert groups.sizes.tolist() == [4, 4, 4]
        traces = [one["traces"][0] for one in TRACED]
        expected = [
            sum(part["score"] * part["weight"] for part in trace["rewards"].values())
            if trace["ok"]
            else np.nan
            for trace in traces
        ]
        np.testing.assert_allclose(groups.rewards, expected)
        assert groups.group_id.tolist() == [one["task"]["key"] for one in TRACED[::4]]
        assert groups.prompt_id.tolist() == groups.group_id.tolist()
        columns = groups.columns
        assert columns["length"].tolist() == [trace["num_output_tokens"] for trace in traces]
        cut = [trace["calls"][-1]["finish_reason"] == "length" for trace in traces]
        assert columns["truncated"].tolist() == cut
        np.testing.assert_array_equal(columns["correct"], columns["reward/correct_answer"])
        assert set(columns["reward/format"][:11].tolist()) == {0.5, 1.0}
        assert "correct: read from correct_answer" in run.source.inferred

    def test_an_episode_without_a_trace_is_said(self):
        (problem,) = bt.read(FILE).problems
        assert (problem.line, problem.file) == (13, str(FILE))
        assert problem.message.endswith("before it had a trace: TaskError")

    def test_texts_come_back(self):
        run = bt.read(FILE)
        texts = run.texts([0, 11, 5])
        assert texts[0].prompt == "What is 0 + 0?"
        assert texts[1].prompt == "What is 2 + 2?"
        node = TRACED[5]["traces"][0]["nodes"][-1]["message"]
        assert texts[2].completion == f"{node['reasoning_content']}\n{node['content']}"

    def test_several_traces_of_an_episode(self, tmp_path):
        first, second = TRACED[0], TRACED[4]
        judge = second["traces"][0] | {"agent": {"name": "judge", "trainable": False}}
        both = first | {"traces": [first["traces"][0], judge, second["traces"][0]]}
        path = write(tmp_path / "traces.jsonl", [both, first])
        run = bt.read(path)
        assert run.groups.n_samples == 3
        assert run.groups.columns["row"].tolist() == [1, 2, 3]
        assert any("not trained" in one for one in run.source.inferred)
        assert [one.prompt for one in run.texts([0, 1, 2])] == [
            "What is 0 + 0?",
            "What is 1 + 1?",
            "What is 0 + 0?",
        ]

    def test_a_group_id_goes_before_the_task(self, tmp_path):
        rows = [one | {"group": {"id": f"g{at % 2}"}} for at, one in enumerate(TRACED[:4])]
        groups = bt.read(write(tmp_path / "traces.jsonl", rows)).groups
        assert groups.group_id.tolist() == ["g0", "g1"]
        assert len(set(groups.prompt_id)) == 1

    @pytest.mark.parametrize(
        ("changes", "reward"),
        [
            ({"rewards": {}}, np.nan),
            ({"rewards": {"a": None, "b": None}}, np.nan),
            ({"rewards": {"a": None, "b": {"score": 0.5, "weight": 2.0}}}, 1.0),
            ({"rewards": {"a": {"score": 0.5}}}, 0.5),
            ({"rewards": {"a": 0.25}}, 0.25),
            ({"rewards": {"a": {"score": -1, "weight": 0}}}, 0.0),
            ({"rewards": {"a": {"score": 1}}, "ok": False}, np.nan),
            ({"rewards": {"a": {"score": float("nan")}}}, np.nan),
        ],
    )
    def test_rewards(self, tmp_path, changes, reward):
        rows = [trace_of(TRACED[0], **changes), TRACED[1]]
        run = bt.read(write(tmp_path / "traces.jsonl", rows))
        np.testing.assert_array_equal(run.groups.rewards, [reward, 1.2])
        assert run.problems == ()

    @pytest.mark.parametrize("score", ["good", 10**400, 1e999, [1]])
    def test_scores_that_are_no_numbers(self, tmp_path, score):
        rows = [trace_of(TRACED[0], rewards={"a": {"score": score}}), TRACED[1]]
        run = bt.read(write(tmp_path / "traces.jsonl", rows))
        np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1.2])
        assert run.problems
        assert {one.line for one in run.problems} == {1}
        assert all("a" in one.message for one in run.problems)

    @pytest.mark.parametrize(
        ("advantages", "expected"),
        [([0.5, 0.5], 0.5), ([0.0, 0.0], 0.0), ([], np.nan), (None, np.nan), ([0.5, -1], np.nan)],
    )
    def test_advantages(self, tmp_path, advantages, expected):
        node = {"message": {"role": "assistant", "content": "4"}, "sampled": True}
        rows = [trace_of(TRACED[0], nodes=[node | {"advantages": advantages}]), TRACED[1]]
        columns = bt.read(write(tmp_path / "traces.jsonl", rows)).groups.columns
        found = columns.get("advantage", np.full(2, np.nan))[0]
        np.testing.assert_equal(found, expected)

    @pytest.mark.parametrize(
        ("changes", "cut"),
        [
            ({"stop_condition": "max_turns"}, 1),
            ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}, 0),
            ({"calls": [{"finish_reason": "length"}, {"error": {"type": "x"}}]}, 1),
            ({"calls": []}, np.nan),
        ],
    )
    def test_truncated(self, tmp_path, changes, cut):
        rows = [trace_of(TRACED[0], **changes), TRACED[1]]
        columns = bt.read(write(tmp_path / "traces.jsonl", rows)).groups.columns
        np.testing.assert_array_equal(columns["truncated"], [cut, 0])

    def test_a_length_without_usage_is_that_of_the_mask(self, tmp_path):
        rows = [trace_of(TRACED[0], calls=[]), TRACED[1]]
        columns = bt.read(write(tmp_path / "traces.jsonl", rows)).groups.columns
        assert columns["length"].tolist() == [4, 4]

    def test_tasks_without_a_key_are_told_by_their_number(self, tmp_path):
        rows = [
            one | {"task": {"type": "T", "data": {"idx": at // 2}}}
            for at, one in enumerate(TRACED[:4])
        ]
        groups = bt.read(write(tmp_path / "traces.jsonl", rows)).groups
        assert groups.group_id.tolist() == ["sums/0", "sums/1"]

    def test_a_map_names_rewards_and_metrics(self):
        run = bt.read(FILE, map={"reward": "correct_answer", "reward/turns": "num_turns"})
        assert set(run.groups.rewards[:11]) == {0.0, 1.0}
        assert set(run.groups.columns["reward/turns"]) == {1.0}


class TestDamage:
    def test_a_last_line_that_is_cut_off(self, tmp_path):
        path = tmp_path / "traces.jsonl"
        path.write_bytes(FILE.read_bytes().splitlines(keepends=True)[0] * 3 + b'{"id": "x", "trac')
        run = bt.read(path)
        assert (run.groups.n_samples, run.facts.unreadable) == (3, 1)
        (problem,) = run.problems
        assert problem.line == 4
        assert problem.message.startswith("the last line is cut off")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"task": {}, "traces": 3}', "Expected `array`, got `int` - at `$.traces`"),
            ('{"task": {}}', "missing required field `traces`"),
            ('{"task": {}, "traces": [{"nodes": "x"}]}', "at `$.traces[0].nodes`"),
            ("[1]", "Expected `object`, got `array`"),
            ("not JSON", "not a verifiers episode"),
        ],
    )
    def test_lines_that_are_no_episodes(self, tmp_path, line, message):
        path = tmp_path / "traces.jsonl"
        path.write_text("\n".join([json.dumps(TRACED[0]), line, json.dumps(TRACED[1]), ""]))
        run = bt.read(path)
        assert run.groups.n_samples == 2
        (problem,) = run.problems
        assert problem.line == 2
        assert message in problem.message

    def test_bytes_that_are_not_utf8(self, tmp_path):
        path = tmp_path / "traces.jsonl"
        line = json.dumps(TRACED[0]).encode()
        path.write_bytes(line + b"\n" + line.replace(b"What", b"Wh\xff") + b"\n")
        run = bt.read(path)
        assert run.groups.n_samples == 2
        assert "\ufffd" in run.texts([1])[0].prompt

    def test_an_empty_file(self, tmp_path):
        (tmp_path / "traces.jsonl").touch()
        with pytest.raises(InputError, match="empty"):
            bt.read(tmp_path)

    def test_a_file_that_was_changed_since(self, tmp_path):
        path = write(tmp_path / "traces.jsonl", TRACED)
        run = bt.read(path)
        write(path, [*TRACED[:1], {"a": 1}])
        assert run.texts([0, 1, 11])[1:] == [("", ""), ("", "")]


class TestResults:
    def test_columns(self, tmp_path):
        run = bt.read(dumps.results(tmp_path))
        groups = run.groups
        assert groups.group_id.tolist() == [0, 1, 2]
        assert groups.rewards.tolist() == [one for some in dumps.GROUPS.values() for one in some]
        assert groups.columns["truncated"].tolist() == [0, 0, 1, 0] * 3
        assert groups.columns["length"].tolist() == [5] * 12
        assert groups.columns["correct"].tolist() == groups.rewards.tolist()
        assert {name for name in groups.columns if "/" in name} == {"reward/format_reward"}
        assert run.texts([2]) == [("prompt 0", "answer 2")]

    def test_equal_prompts_of_two_examples_stay_apart(self, tmp_path):
        dumps.results(tmp_path, prompt="one prompt")
        assert bt.read(tmp_path).groups.sizes.tolist() == [4, 4, 4]

    def test_a_rollout_that_failed_has_no_reward(self, tmp_path):
        dumps.results(tmp_path, {0: [0, 0]}, error={"error": "boom"})
        assert np.isnan(bt.read(tmp_path).groups.rewards).all()


@pytest.mark.parametrize("log", [lambda folder: FILE, dumps.results])
def test_through_the_command_line(tmp_path, capsys, log):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(log(tmp_path)), "--json", "--fail-on", "never"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert (told["source"]["format"], told["source"]["rollouts"]) == ("verifiers", 12)
    assert told["measures"]["acr"] is not None

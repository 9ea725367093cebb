"""prime-rl's rollouts: what arrived, joined with what was shipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.cli import main
from tests.logs.writing import write

DATA = Path(__file__).parent / "data" / "prime_rl"
PLACE = "rollouts/step_{}/train/{}/traces.jsonl"


def episodes(subset: str, kind: str = "train") -> list[dict]:
    paths = sorted(DATA.glob(f"rollouts/step_*/{kind}/{subset}/traces.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def only(tmp_path: Path, subset: str) -> Path:
    """Return a copy of the run with one of the two cohorts."""
    shutil.copytree(DATA, tmp_path / "run")
    for path in (tmp_path / "run").glob("rollouts/step_*/*/*"):
        if path.name != subset:
            shutil.rmtree(path)
    return tmp_path / "run"


def test_every_arrived_rollout_once():
    run = bt.read(DATA)
    groups = run.groups
    assert (run.source.format, run.facts.grouped_by) == ("prime-rl", "key")
    assert not run.facts.filtered
    arrived = episodes("all")
    assert groups.n_samples == len(arrived) == 24
    expected = {}
    for one in arrived:
        trace = one["traces"][0]
        reward = sum(part["score"] * part["weight"] for part in trace["rewards"].values())
        expected.setdefault(one["group"]["id"], []).append(reward if trace["ok"] else np.nan)
    found = dict(zip(groups.group_id, np.split(groups.rewards, groups.offsets[1:-1]), strict=True))
    assert found.keys() == expected.keys()
    for name, rewards in expected.items():
        np.testing.assert_allclose(found[name], rewards)


def test_a_group_whose_rollouts_arrived_in_two_steps_is_one_of_the_step_of_its_dispatch():
    folders: dict[str, set[str]] = {}
    for path in sorted(DATA.glob("rollouts/step_*/train/all/traces.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            folders.setdefault(json.loads(line)["group"]["id"], set()).add(path.parts[-4])
    late = [group for group, some in folders.items() if len(some) > 1]
    assert late
    groups = bt.read(DATA).groups
    assert groups.sizes.tolist() == [4] * 6
    assert groups.step.tolist() == [1, 1, 1, 2, 2, 2]


def test_advantages_come_from_the_effective_traces():
    run = bt.read(DATA)
    groups = run.groups
    assert any("effective traces of the same rollouts" in one for one in run.source.inferred)
    known = ~np.isnan(groups.columns["advantage"])
    assert known.sum() == sum(len(one["traces"]) for one in episodes("effective"))
    mean = np.repeat(
        [np.nanmean(some) for some in np.split(groups.rewards, groups.offsets[1:-1])], 4
    )
    # the record of verifiers keeps four decimals
    np.testing.assert_allclose(
        groups.columns["advantage"][known], (groups.rewards - mean)[known], atol=5.1e-5
    )


def test_evaluations_stay_out_and_judges_too():
    run = bt.read(DATA)
    (problem,) = run.problems
    assert "episodes of evaluations, left out" in problem.message
    assert "eval" in problem.file
    assert any("not trained" in one for one in run.source.inferred)
    alone = bt.read(DATA / "rollouts" / "step_2" / "eval")
    assert (alone.source.format, alone.groups.n_samples, alone.problems) == ("prime-rl", 1, ())


def test_one_run_is_not_called_several(tmp_path):
    assert not any("folders" in one for one in bt.read(DATA).source.inferred)
    for name in ("a", "b"):
        shutil.copytree(DATA, tmp_path / name)
    assert any("the files of 2 folders" in one for one in bt.read(tmp_path).source.inferred)


class TestCohortsAlone:
    def test_effective_alone_is_a_filtered_log(self, tmp_path):
        run = bt.read(only(tmp_path, "effective"))
        assert run.facts.filtered
        diagnosis = bt.diagnose(run)
        assert diagnosis.measures["acr"] is None
        assert "filtered-log" in [one.rule for one in diagnosis.findings]

    def test_effective_with_the_filter_off_is_not(self, tmp_path):
        rows = episodes("effective")
        for node in rows[0]["traces"][0]["nodes"]:
            node["advantages"] = [0.0] * sum(node["mask"])
        run = bt.read(write(tmp_path / PLACE.format(1, "effective"), rows))
        assert not run.facts.filtered

    def test_all_alone_has_no_advantages(self, tmp_path):
        run = bt.read(only(tmp_path, "all"))
        assert run.groups.n_samples == 24
        assert "advantage" not in run.groups.columns

    def test_a_file_out_of_its_place(self, tmp_path):
        run = bt.read(write(tmp_path / "traces.jsonl", episodes("all")))
        assert (run.source.format, run.groups.sizes.tolist()) == ("prime-rl", [4] * 6)

    def test_the_step_of_the_folder_where_nothing_else_tells(self, tmp_path):
        rows = [{**one, "run": None} for one in episodes("all")[:4]]
        run = bt.read(write(tmp_path / PLACE.format(7, "all"), rows))
        assert run.groups.step.tolist() == [7]


def test_broken_lines_in_both_cohorts(tmp_path):
    root = shutil.copytree(DATA, tmp_path / "run")
    for subset in ("all", "effective"):
        path = root / PLACE.format(1, subset)
        lines = path.read_text("utf-8").splitlines()
        path.write_text("\n".join([lines[0], "{broken", *lines[1:-1], lines[-1][:-30]]))
    run = bt.read(root)
    assert run.groups.n_samples == 23
    assert run.facts.unreadable == 2
    places = [(Path(one.file).parent.name, one.line) for one in run.problems if one.line]
    assert places == [("all", 2), ("all", 12), ("effective", 2), ("effective", 9)]


def test_through_the_command_line(capsys):
    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(DATA), "--json", "--fail-on", "never"])
    told = json.loads(capsys.readouterr().out)
    assert left.value.code == 0
    assert told["source"]["format"] == "prime-rl"
    assert told["source"]["group_sizes"] == {"4": 6}
    assert 0 < told["measures"]["acr"] < 1

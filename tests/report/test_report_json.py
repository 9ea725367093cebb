"""The JSON report keeps its contract: these keys, these types, strict JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import hostile_run, made_run

from buttress.groups import Groups, Problem, Run, Source
from buttress.report import diagnose

NUMBER = (int, float)
KINDS = ("all_wrong", "all_correct", "tied_between", "mixed")


def report_of(run: Run | Groups, **options: Any) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(diagnose(run, **options).to_json(), parse_constant=refuse)


def check(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Hold an object against names and types; None among the types means null is allowed."""
    for name, types in wanted.items():
        assert name in given, name
        if isinstance(types, dict):
            check(given[name], types)
        else:
            assert isinstance(given[name], types), (name, given[name])
            assert not isinstance(given[name], bool), name


REPORT = {
    "schema": int,
    "version": str,
    "source": {
        "paths": list,
        "format": str,
        "rollouts": int,
        "groups": int,
        "steps": int,
        "group_sizes": dict,
    },
    "tolerance": {"atol": NUMBER, "rtol": NUMBER, "resolution": NUMBER},
    "verdict": str,
    "measures": {
        "acr": (*NUMBER, type(None)),
        "acr_interval": (list, type(None)),
        "acr_by_reward": dict,
        "groups": dict.fromkeys(
            [*KINDS, "near_tied", "unscorable", "singleton"],
            int,
        ),
        "rollouts": {"unscorable": int, "wasted": int},
        "wasted_tokens": (int, type(None)),
        "effective_batch": (*NUMBER, type(None)),
    },
    "steps": list,
    "findings": list,
    "problems": list,
}
STEP = {
    "step": int,
    "acr": (*NUMBER, type(None)),
    **dict.fromkeys(KINDS, int),
    "reward_mean": (*NUMBER, type(None)),
}
FINDING = {
    "rule": str,
    "code": str,
    "severity": str,
    "steps": (list, type(None)),
    "message": str,
    "evidence": dict,
    "advice": list,
}
PROBLEM = {"file": str, "line": int, "message": str}


def broken() -> Groups:
    return Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4)


RUNS = {
    "a run": lambda: made_run(steps=20, ease=-0.3),
    "a good run": lambda: made_run(steps=5, ease=0.2),
    "nothing": lambda: Run(Groups.from_nested([])),
    "broken grouping": broken,
    "all null": lambda: Groups.from_nested([[None, None], [None, None]]),
    "infinite": lambda: Groups.from_nested([[np.inf, 1, 0], [np.nan, -np.inf, 0]]),
    "hostile": lambda: hostile_run("\x00\ud800</script>\u202e"),
    "ragged": lambda: Groups.from_nested([[1], [], [0, 0, 0], [1, 0]]),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_gives_all_keys_with_their_types(name: str) -> None:
    report = report_of(RUNS[name]())
    assert report["schema"] == 1
    assert report["verdict"] in ("healthy", "attention", "collapsed", "undefined")
    check(report, REPORT)
    for step in report["steps"]:
        check(step, STEP)
    for finding in report["findings"]:
        check(finding, FINDING)
        assert finding["severity"] in ("info", "warning", "error")
        assert finding["steps"] is None or [type(one) for one in finding["steps"]] == [int, int]
        for advice in finding["advice"]:
            check(advice, {"action": str, "why": str, "cost": str})
    for problem in report["problems"]:
        check(problem, PROBLEM)


def test_group_sizes_are_counted_under_strings() -> None:
    groups = Groups.from_nested([[1, 0]] * 3 + [[1, 0, 1]])
    assert report_of(groups)["source"]["group_sizes"] == {"2": 3, "3": 1}


def test_the_numbers_add_up() -> None:
    run = made_run(steps=30)
    report = report_of(run)
    source, measures = report["source"], report["measures"]
    assert (source["rollouts"], source["groups"], source["steps"]) == (30 * 64, 240, 30)
    counts = measures["groups"]
    tied = sum(counts[kind] for kind in KINDS[:3])
    assert tied + counts["mixed"] + counts["unscorable"] + counts["singleton"] == 240
    assert measures["acr"] == pytest.approx(tied / (tied + counts["mixed"]))
    low, high = measures["acr_interval"]
    assert 0 <= low <= measures["acr"] <= high <= 1
    assert measures["rollouts"]["wasted"] == 8 * tied
    for kind in KINDS:
        assert sum(step[kind] for step in report["steps"]) == counts[kind]
    assert set(measures["acr_by_reward"]) == {
        "reward",
        "correct",
        "reward/accuracy",
        "reward/format",
    }
    assert measures["acr_by_reward"]["reward"] == measures["acr"]


def test_the_tolerance_of_the_call_is_reported_and_used() -> None:
    groups = Groups.from_nested([[0, 0.01], [0, 1]])
    assert report_of(groups)["measures"]["acr"] == 0
    report = report_of(groups, tolerance=0.02)
    assert report["tolerance"]["atol"] == 0.02
    assert report["measures"]["acr"] == 0.5


def test_what_is_undefined_is_null_with_the_reason() -> None:
    report = report_of(broken())
    measures = report["measures"]
    assert report["verdict"] == "undefined"
    assert measures["acr"] is None
    assert measures["acr_interval"] is None
    assert measures["effective_batch"] is None
    assert measures["acr_by_reward"] == {"reward": None}
    assert "single rollout" in measures["acr_undefined"]
    assert all(step["acr"] is None for step in report["steps"])


def test_unknown_lengths_are_null_and_not_zero() -> None:
    assert report_of(Groups.from_nested([[0, 0]]))["measures"]["wasted_tokens"] is None
    known = Groups.from_nested([[0, 0]], length=[[3, 4]])
    assert report_of(known)["measures"]["wasted_tokens"] == 7


def test_file_names_that_are_not_utf8_do_not_stop_the_report() -> None:
    # what os.fsdecode makes of such a name
    name = b"runs/caf\xe9.jsonl".decode("utf-8", "surrogateescape")
    run = Run(
        Groups.from_nested([[1, 0]]),
        source=Source(paths=(name,)),
        problems=(Problem(name, 3, "cut off"),),
    )
    report = report_of(run)
    assert report["source"]["paths"] == ["runs/caf\ufffd.jsonl"]
    assert report["problems"][0]["file"] == "runs/caf\ufffd.jsonl"


def test_the_report_is_written_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    text = diagnose(made_run(steps=3)).to_json(target)
    assert json.loads(target.read_text(encoding="utf-8")) == json.loads(text)
    assert [path.name for path in target.parent.iterdir()] == ["report.json"]

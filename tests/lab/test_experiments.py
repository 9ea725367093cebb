"""Experiments: which runs they ask for, resuming, tables, conclusions, figures."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import require

require("torch")

from buttress.cli import main  # noqa: E402  after the skip
from buttress.errors import ButtressError, UsageError  # noqa: E402
from buttress.lab.experiments import (  # noqa: E402
    EXPERIMENTS,
    Arm,
    Condition,
    Experiment,
    evidence,
    forecast,
    one_run,
    runner,
    tables,
)
from buttress.lab.experiments.geometry import geometry  # noqa: E402
from buttress.lab.policy_training import History, Setting  # noqa: E402
from buttress.lab.starts import STARTS, problem_sets, starting_point  # noqa: E402
from buttress.remedies import create  # noqa: E402
from buttress.remedies.registry import kind_of  # noqa: E402

SMALL = Experiment(
    "small",
    "Is one better?",
    (Arm("grpo"), Arm("other", {"method": "posterior"}), Arm("control", rate_of="other")),
    (Condition("easy", "acr30"), Condition("hard", "acr95", {"steps": 400}, rates=(1e-5, 1e-4))),
    seeds=(2, 0, 1),
)


def record(condition, arm, seed, value, lr=2e-4, steps=200):
    kept = ("updates", "rollouts", "initial acr", "acr", "acr after", "norm", *SMALL.measures)
    run = {"condition": condition, "arm": arm, "seed": seed, "lr": lr, "steps": steps}
    return {**run, **dict.fromkeys(kept, value)}


def test_controls_are_not_tuned_and_take_the_rate_of_what_they_control():
    tuning = list(SMALL.tuning())
    assert {run["arm"] for run in tuning} == {"grpo", "other"}
    assert {run["lr"] for run in tuning if run["condition"] == "hard"} == {1e-5, 1e-4}
    tuned = [
        record(run["condition"], run["arm"], run["seed"], -abs(run["lr"] - 1e-4), run["lr"])
        for run in tuning
    ]
    wanted = list(SMALL.comparison(tuned))
    assert len(wanted) == 3 * 2 * 3
    assert {run["lr"] for run in wanted} == {1e-4}
    assert {run["steps"] for run in wanted if run["condition"] == "hard"} == {400}
    quick = list(SMALL.quick().comparison([]))
    assert {(run["lr"], run["steps"]) for run in quick} == {(2e-4, 100)}


def test_every_experiment_asks_for_runs_that_can_be_built():
    assert len(EXPERIMENTS) == 24
    for experiment in EXPERIMENTS.values():
        assert experiment.arms or experiment.probe
        assert not {100, 101} & set(experiment.seeds)  # tuning seeds are other seeds
        for condition in experiment.conditions:
            assert condition.start in STARTS
            for arm in experiment.arms:
                changes = {**condition.changes, **arm.changes}
                for name in one_run.PROBLEMS:
                    changes.pop(name, None)
                setting = Setting(**changes)
                assert kind_of(setting.method) in ("advantage", "token")
                create(setting.method, **setting.options)
        labels = {arm.label for arm in experiment.arms}
        assert all(arm.rate_of in labels | {None} for arm in experiment.arms)


class InProcess:
    """A pool that runs what it is given at once."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *arguments):
        done: Future = Future()
        try:
            done.set_result(function(*arguments))
        except RuntimeError as fault:
            done.set_exception(fault)
        return done


def test_an_experiment_resumes_after_a_torn_line(tmp_path, monkeypatch):
    ran = []

    def fake(condition, arm, run):
        ran.append(run)
        return {**run, "pass@1 course": 1.0 - abs(run["lr"] - 2e-4), "pass@1": 0.5}

    monkeypatch.setattr(runner, "run_once", fake)
    monkeypatch.setattr(runner, "pool", InProcess)
    path = tmp_path / "runs.jsonl"
    first = runner.run_experiment(SMALL, path, report=lambda _: None)
    assert {run["lr"] for run in first} == {2e-4, 1e-4}
    n_runs = len(ran)
    for cut in (1, 20):  # the line's end only, or half of it
        path.write_text(path.read_text()[:-cut])
        again = runner.run_experiment(SMALL, path, report=lambda _: None)
        assert json.dumps(again, sort_keys=True) == json.dumps(first, sort_keys=True)
    assert len(ran) - n_runs == 1
    runner.run_experiment(SMALL, path, report=lambda _: None)
    assert len(ran) - n_runs == 1


def test_a_run_that_fails_loses_no_other(tmp_path, monkeypatch):
    ran = []

    def fake(condition, arm, run):
        ran.append(run)
        if run["seed"] == 2 and len(ran) < 100:
            raise RuntimeError("out of memory")
        return {**run, "pass@1 course": 1.0}

    monkeypatch.setattr(runner, "run_once", fake)
    monkeypatch.setattr(runner, "pool", InProcess)
    path = tmp_path / "runs.jsonl"
    with pytest.raises(ButtressError, match=r"6 of 18 runs failed.*seed 2: RuntimeError: out of"):
        runner.run_experiment(SMALL, path, report=lambda _: None)
    assert {run["seed"] for run in runner.read_records(path)} == {0, 1, 100}
    n_runs = len(ran)
    ran.extend([{}] * 100)
    assert len(runner.run_experiment(SMALL, path, report=lambda _: None)) == 18
    assert len(ran) - 100 - n_runs == 6


def die(*_):
    import os

    os._exit(1)


def test_a_worker_that_dies_is_an_error_that_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_once", die)
    with pytest.raises(ButtressError, match=r"runs failed.*the same command runs what is missing"):
        runner.run_experiment(SMALL, tmp_path / "runs.jsonl", workers=1, report=lambda _: None)


def test_paired_differences_by_hand():
    found = tables.paired_test([0.1, 0.3, 0.2])
    assert found["mean"] == pytest.approx(0.2)
    # t(0.975, 2) = 4.302653; the standard error is 0.1 / sqrt(3)
    assert found["high"] - found["mean"] == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert (found["n"], found["better"]) == (3, 3)
    assert tables.paired_test([0.1, float("nan")])["n"] == 1
    assert np.isnan(tables.paired_test([])["mean"])


def made(gain):
    return [
        record(condition.label, arm.label, seed, 0.3 + 0.1 * seed + gain * place + 0.001 * seed**2)
        for condition in SMALL.conditions
        for place, arm in enumerate(SMALL.arms)
        for seed in SMALL.seeds
    ]


def test_a_contender_is_compared_with_every_other_arm(tmp_path):
    experiment = replace(SMALL, contender="other")
    paths = evidence.write_evidence(experiment, made(0.05), tmp_path, command="made by hand")
    written = json.loads(paths[0].read_text())
    fought = [row for row in written["rows"] if "against" in row]
    assert {(row["condition"], row["against"]) for row in fought} == {
        (condition, arm) for condition in ("easy", "hard") for arm in ("grpo", "control")
    }
    apart = {row["against"]: row["pass@1"] for row in fought}
    assert apart["grpo"]["mean"] == pytest.approx(0.05)
    assert apart["control"]["mean"] == pytest.approx(-0.05)
    assert "pass@1 course of other minus grpo: easy +5.0" in written["conclusion"]
    assert "| hard | control | -5.0 [-5.0, -5.0]" in paths[1].read_text()


def test_the_evidence_pairs_by_seed_and_its_conclusion_follows_the_numbers(tmp_path):
    paths = evidence.write_evidence(SMALL, made(0.05), tmp_path, command="made by hand")
    written = json.loads(paths[0].read_text())
    assert set(written) >= {"experiment", "command", "seeds", "rows", "conclusion"}
    assert written["seeds"] == [0, 1, 2]
    assert written["rows"][1]["pass@1 difference"]["mean"] == pytest.approx(0.05)
    page = paths[1].read_text()
    assert "+5.0 [+5.0, +5.0]" in page
    assert "other: above at easy (+5.0), hard (+5.0)." in written["conclusion"]
    assert "| other | **+5.0** | **+5.0** |" in page
    assert paths[2].read_text().startswith("<?xml")
    assert "small.svg" in page
    same = evidence.write_evidence(SMALL, made(0.0), tmp_path, command="made by hand")
    assert "other: not told apart" in json.loads(same[0].read_text())["conclusion"]
    assert "| other | +0.0 | +0.0 |" in same[1].read_text()


def test_a_page_says_how_the_learning_rates_came_about(tmp_path):
    def page(*grids):
        pairs = zip(SMALL.conditions, grids, strict=True)
        conditions = tuple(replace(one, rates=grid) for one, grid in pairs)
        experiment = replace(SMALL, conditions=conditions)
        return evidence.write_evidence(experiment, made(0.0), tmp_path, command="by hand")[1]

    assert "best of 0.1, 0.2 for each" in page((0.1, 0.2), (0.1,)).read_text()
    assert "rate is that of the condition" in page((0.1,), (0.2,)).read_text()
    assert "Learning rate 0.1 for all" in page((0.1,), (0.1,)).read_text()


def test_noise_is_not_told_apart():
    draws = np.random.default_rng(0)
    records = [{**one, "pass@1 course": draws.random()} for one in made(0.0)]
    assert "above" not in tables.conclude(SMALL, tables.summarise(SMALL, records))


def test_unknown_is_null_in_json_and_a_dash_on_the_page(tmp_path):
    records = [{**one, "pass@1": None} for one in made(0.0) if one["arm"] == "grpo"]
    paths = evidence.write_evidence(SMALL, records, tmp_path, command="by hand")
    assert json.loads(paths[0].read_text())["rows"][0]["pass@1"] is None
    assert "| – |" in paths[1].read_text()


def test_forecast_recovers_what_was_put_in():
    draws = np.random.default_rng(1)
    acr, rate = draws.random(200), draws.random(200)

    def records(greedy):
        columns = {"early acr": acr, "early pass rate": rate, "initial greedy": rate}
        runs = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        named = zip(runs, greedy, strict=True)
        return [{**run, "greedy": y, "condition": "acr30, T=1, G=8"} for run, y in named]

    noise = 0.1 * draws.standard_normal(200)
    found = {row["predictors"]: row for row in forecast.fits(records(0.5 - 0.3 * acr + noise))}
    expected = 0.3**2 * acr.var() / (0.3**2 * acr.var() + noise.var())
    assert found["early acr"]["R2"] == pytest.approx(expected, abs=0.08)
    assert found["early acr"]["low"] < expected < found["early acr"]["high"] + 0.08
    assert found["early pass rate"]["R2"] < 0.05
    said = forecast.analyse(records(rate), ())
    assert "early pass rate alone 1.00" in said
    assert np.isnan(forecast.r_squared(acr[:, None], np.ones(200)))


def test_forgotten_counts_failures_after_mastery():
    history = History()
    for success in ([1.0, 0.5], [0.75, 1.0], [1.0, 1.0]):
        history.visit(np.array([0, 1]), np.array(success))
    assert history.forgotten() == pytest.approx(0.125)
    assert np.isnan(History().forgotten())


@pytest.mark.trl
def test_geometry_of_a_quadratic_direction():
    start = STARTS["acr45"]
    problems, _ = problem_sets(start, 0, train=6)
    found = geometry(starting_point(start), problems)
    assert 0.01 < found["mean p"] < 0.6
    assert -1 <= found["rank correlation"] <= 1
    assert 0 <= found["mean |cosine|"] < 1


def test_lab_commands(tmp_path, capsys):
    evidence.write_evidence(SMALL, made(0.05), tmp_path, command="made by hand")
    with pytest.raises(SystemExit) as done:
        main(["lab", "report", str(tmp_path), "--json"])
    assert done.value.code == 0
    [entry] = json.loads(capsys.readouterr().out)
    assert (entry["experiment"], entry["seeds"]) == ("small", 3)
    with pytest.raises(SystemExit) as done:
        main(["lab", "report", str(tmp_path)])
    assert "other: above" in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(SystemExit) as done:
        main(["lab", "run", "postrior"])
    assert done.value.code == 2
    assert "posterior" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match="not the evidence"):
        evidence.evidence_index(tmp_path)

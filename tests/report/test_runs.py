"""Several runs: a verdict for each, comparisons of sets, and the line that finished runs teach."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from test_html_report import Page

from buttress.cli import main
from buttress.groups import Groups, Run
from buttress.report.comparison import Comparison, RunSet
from buttress.report.html import sheet_page
from buttress.report.runs import NamedCase, Runs
from buttress.rules import Case


def simulated(rate, steps=40, seed=0, per_step=8, dead=0.2):
    rng = np.random.default_rng(seed)
    n = steps * per_step
    p = np.where(rng.random(n) < dead, 0.0, rate)
    step = np.repeat(np.arange(1, steps + 1), per_step)
    won = (rng.random((n, 8)) < p[:, None]).astype(float)
    return Run(Groups.from_dense(won, step=step))


def write(path, run):
    path.parent.mkdir(parents=True, exist_ok=True)
    groups = run.groups
    rows = [
        {"step": int(groups.step[g]), "group": int(g), "reward": float(groups.rewards[s])}
        for s, g in enumerate(groups.group_of)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def left_with(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return int(left.value.code or 0)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "good" / "rollouts.jsonl", simulated(0.4))
    write(tmp_path / "dead" / "rollouts.jsonl", simulated(0.4, dead=0.95))
    return tmp_path


def test_each_run_has_its_verdict_and_the_worst_decides(folder, capsys):
    assert left_with("diagnose", folder, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert {run["name"]: run["verdict"] for run in report["runs"]} == {
        "good": "healthy",
        "dead": "collapsed",
    }
    assert report["verdict"] == "collapsed"
    assert left_with("diagnose", folder, "--json", "--fail-on", "never") == 0
    capsys.readouterr()
    assert left_with("diagnose", folder / "good", folder / "good", "--json") == 0


def test_the_schema_of_one_run_stands_for_several_too(folder, capsys):
    left_with("diagnose", folder, "--json")
    several = json.loads(capsys.readouterr().out)
    left_with("diagnose", folder / "good", "--json")
    single = json.loads(capsys.readouterr().out)
    assert set(single) < set(several)
    assert set(single["measures"]) == set(several["measures"])
    assert several["measures"]["acr"] is None
    (own,) = [run for run in several["runs"] if run["name"] == "good"]
    assert own["measures"] == single["measures"]
    assert own["findings"] == single["findings"]
    assert several["source"]["rollouts"] == 2 * 40 * 8 * 8


def test_a_run_that_cannot_be_read_does_not_stop_the_others(folder, capsys):
    (folder / "bad").mkdir()
    (folder / "bad" / "rollouts.jsonl").write_text('{"reward": "x", "group": 1}\n')
    left_with("diagnose", folder, "--json")
    report = json.loads(capsys.readouterr().out)
    assert {"good", "dead"} <= {run["name"] for run in report["runs"]}
    assert any("bad" in problem["file"] for problem in report["problems"])


def test_as_one_pools(folder, capsys):
    left_with("diagnose", folder, "--as-one", "--json")
    report = json.loads(capsys.readouterr().out)
    assert "runs" not in report
    assert report["source"]["rollouts"] == 2 * 40 * 8 * 8


def test_terminal_and_page_name_every_run(folder, capsys):
    assert left_with("diagnose", folder, "--html", folder / "all.html") == 1
    said = capsys.readouterr().out
    assert "2 runs: 1 collapsed, 1 healthy." in said
    assert "error[BT101] advantage-collapse" in said
    text = "".join(Page((folder / "all.html").read_text()).texts)
    for name in ("good", "dead", "advantage-collapse", "all-wrong-collapse"):
        assert name in text


def cases(rates, seeds=None, start=0, **options):
    return [
        NamedCase(f"run {place}", Case(simulated(rate, seed=start + place, **options)), seed)
        for place, (rate, seed) in enumerate(zip(rates, seeds or [None] * len(rates), strict=True))
    ]


def side(name, *args, **options):
    return RunSet(name, Runs.of(cases(*args, **options)).each)


def row(comparison, name):
    return next(one for one in comparison.rows if one.name == name)


def test_sets_pair_by_seed():
    first = side("a", [0.3, 0.35, 0.4], [0, 1, 2])
    second = side("b", [0.5, 0.45, 0.4], [2, 1, 0])
    found = Comparison(first, second)
    assert found.paired_by == "seed"
    means = [
        {run.seed: np.nanmean(run.diagnosis.case.steps.reward_mean) for run in one.runs}
        for one in (first, second)
    ]
    expected = stats.ttest_rel([means[1][s] for s in range(3)], [means[0][s] for s in range(3)])
    reward = row(found, "reward_mean").difference
    assert reward.p_value == pytest.approx(expected.pvalue)
    assert reward.low == pytest.approx(expected.confidence_interval().low)
    assert reward.paired == 3


def test_sets_without_seeds_are_compared_by_welch():
    first, second = side("a", [0.3, 0.35, 0.4]), side("b", [0.5, 0.45, 0.4, 0.55])
    found = Comparison(first, second)
    assert found.paired_by is None
    values = [
        [
            1 - run.diagnosis.case.steps.mixed.sum() / run.diagnosis.case.steps.eligible.sum()
            for run in one.runs
        ]
        for one in (first, second)
    ]
    expected = stats.ttest_ind(values[1], values[0], equal_var=False)
    acr = row(found, "acr").difference
    assert acr.p_value == pytest.approx(expected.pvalue)
    assert acr.high == pytest.approx(expected.confidence_interval().high)
    assert "Welch" in found.how


def test_only_common_seeds_pair_and_only_common_steps_count():
    first = side("a", [0.3, 0.35, 0.4], [0, 1, 5])
    second = side("b", [0.5, 0.45, 0.4], [0, 1, 9], steps=60)
    found = Comparison(first, second)
    assert found.seeds == [0, 1]
    assert len(found.steps) == 40
    assert row(found, "acr").difference.paired == 2


def test_one_run_against_a_set_has_no_interval():
    found = Comparison(side("a", [0.3]), side("b", [0.5, 0.4]))
    acr = row(found, "acr").difference
    assert np.isfinite(acr.value)
    assert np.isnan(acr.low)
    assert "no interval" in found.how


def test_false_alarms_of_sets_are_as_rare_as_said():
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rates = 0.3 + rng.normal(0, 0.05, (2, 4))
        sides = [
            side(name, list(own), start=100 * seed + 10 * place, steps=10)
            for place, (name, own) in enumerate(zip("ab", rates, strict=True))
        ]
        alarms += row(Comparison(*sides), "reward_mean").difference.p_value < 0.05
    assert alarms <= 8


def test_compare_takes_directories_patterns_and_lists(tmp_path, capsys):
    for arm, rate in (("a", 0.3), ("b", 0.5)):
        for seed in range(3):
            run = simulated(rate + seed / 50, 20, seed=seed)
            write(tmp_path / arm / f"seed{seed}" / "rollouts.jsonl", run)
    a, b = tmp_path / "a", tmp_path / "b"
    for first, second, n in (
        (a, b, 3),
        (f"{a}/seed*", f"{b}/seed*", 3),
        (f"{a}/seed0,{a}/seed1", f"{b}/seed0,{b}/seed1", 2),
    ):
        assert left_with("compare", first, second, "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert report["paired_by"] == "seed"
        assert {one["paired_runs"] for one in report["rows"]} == {n}
    page = tmp_path / "compare.html"
    assert left_with("compare", a, b, "--html", page) == 0
    assert "paired by seed (0, 1, 2)" in " ".join(capsys.readouterr().out.split())
    parsed = Page(page.read_text())
    assert "Side by side" in parsed.texts
    assert len(json.loads(parsed.scripts[0])["acr"]["series"]) == 6


def test_a_line_is_learnt_from_the_finished_runs_alone(tmp_path):
    finished = [
        NamedCase(f"run {i}", Case(simulated(0.5, seed=i, dead=dead)))
        for i, dead in enumerate([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    ]
    young = NamedCase("young", Case(simulated(0.5, steps=15, seed=9, dead=0.5)))
    runs = Runs.of([*finished, young])
    assert runs.line is not None
    assert runs.line.runs == 6
    assert runs.line.slope < 0
    reports = runs.as_dict()["runs"]
    assert [one["foretold"] is None for one in reports] == [True] * 6 + [False]
    low, high = reports[-1]["foretold"]["interval"]
    assert low < 0.25 < high
    assert Runs.of(finished[:4]).line is None
    assert "of no others" in "".join(Page(sheet_page(runs.sheet())).texts)


@pytest.mark.parametrize(
    ("first", "second", "heads"),
    [
        ("demo/grpo", "demo/avspo", ("grpo", "avspo")),
        ("a/x/run", "a/y/run", ("x/run", "y/run")),
        ("/tmp/a.jsonl", "b.jsonl", ("/tmp/a.jsonl", "b.jsonl")),
        ("d/a,d/b", "d/c", ("d/a,d/b", "d/c")),
        ("d/a", "d/a", ("a", "a")),
    ],
)
def test_compared_names_leave_out_the_folders_that_they_share(first, second, heads):
    run = NamedCase("one", Case(simulated(0.4)))
    sides = [RunSet(name, Runs.of([run]).each) for name in (first, second)]
    assert Comparison(*sides).header[1:3] == heads


def test_a_piped_table_has_no_torn_numbers_and_no_padding(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    names = ["a" * 40, "b" * 40]
    paths = [write(tmp_path / f"{name}.jsonl", simulated(0.4, seed=3)) for name in names]
    assert left_with("compare", *paths) == 0
    said = capsys.readouterr().out
    assert "+0.000 [+0.000, +0.000]" in said
    assert left_with("diagnose", *paths) in (0, 1)
    said += capsys.readouterr().out
    assert left_with("explain") == 0
    said += capsys.readouterr().out
    assert not [line for line in said.splitlines() if line != line.rstrip()]

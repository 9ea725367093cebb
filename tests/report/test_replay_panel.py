"""The replay panel: its numbers are those of the replay, in bounded time, safe and small."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from made_runs import hostile_run, made_run
from test_html_report import HOSTILE, LIMIT, Page

from buttress.cli import main
from buttress.groups import Groups, Run
from buttress.remedies.replay import Outcome, replay
from buttress.report import diagnose, replay_panel
from buttress.report.html import page
from buttress.report.replay_panel import SHOWN, outcome_chart, replay_chart
from buttress.report.view import View
from buttress.rules import Case


def case_of(run: Run | Groups) -> Case:
    return diagnose(run).case


@pytest.fixture(scope="module")
def case() -> Case:
    return case_of(made_run(steps=20))


def test_the_chart_shows_what_the_replay_says(case: Case) -> None:
    chart = replay_chart(case, seconds=1e9)
    outcomes = replay(case.groups, list(SHOWN))
    assert chart.labels == tuple(SHOWN)
    mixed, tied = (series.values for series in chart.series)
    for place, outcome in enumerate(outcomes):
        assert mixed[place] + tied[place] == pytest.approx(outcome.effective_batch, abs=1e-3)
        assert tied[place] == pytest.approx(outcome.tied_moved, abs=1e-3)
        more = {name: texts[place] for name, texts in chart.more}
        assert more["tied"] == f"{outcome.tied_share:.3f}"
        assert more["max |A|"] == f"{outcome.largest:.3f}"
    by_name = dict(zip(chart.labels, chart.ends, strict=True))
    dynamic = outcomes[SHOWN.index("dynamic_sampling")]
    assert by_name["dynamic_sampling"] == f"100%, +{dynamic.rollouts - 1:.0%} rollouts"
    assert "rollouts" not in by_name["grpo"]
    assert "dynamic_sampling would have sampled" in chart.lead
    assert "dynamic_sampling, greso, difficulty_pools: estimates" in chart.note


def test_tied_groups_that_get_an_advantage_are_told_apart() -> None:
    groups = Groups.from_nested([[1, 0], [0, 0]])
    mixed, tied = outcome_chart(replay(groups, ["grpo", "sign"])).series
    assert mixed.values == (0.5, 0.5)
    assert tied.values == (0.0, 0.5)


def test_every_remedy_has_a_row_with_all_its_numbers(case: Case) -> None:
    chart = replay_chart(case, seconds=1e9)
    assert [row[0] for row in chart.rows] == list(SHOWN)
    assert all(len(row) == len(chart.header) for row in chart.rows)
    many = [Outcome(f"r{n}", effective_batch=0.5, tied_moved=0.1) for n in range(60)]
    assert len(outcome_chart(many).rows) == 60


def test_time_is_bounded_and_what_is_left_out_is_said(case: Case) -> None:
    chart = replay_chart(case, seconds=0.0)
    assert chart.labels == SHOWN[:1]
    assert f"Left out to save time: {', '.join(SHOWN[1:])}" in chart.note


def test_of_a_long_run_the_last_steps_are_played() -> None:
    run = made_run(steps=20, per_step=4)
    chart = replay_chart(case_of(run), rollouts=100)
    assert "Only the last 3 steps of 20 (96 of 640 rollouts)" in chart.note
    last = run.groups.select(run.groups.step > 17)
    (outcome,) = replay(last, ["grpo"])
    assert chart.series[0].values[0] == pytest.approx(outcome.effective_batch, abs=1e-3)
    huge_step = replay_chart(case_of(run), rollouts=1)
    assert "Only the last step of 20" in huge_step.note or "last 1 step" in huge_step.note


@pytest.mark.parametrize(
    "run",
    [
        Groups.from_nested([]),
        Groups.from_nested([[None, None]]),
        Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4),
    ],
)
def test_where_nothing_can_be_replayed_the_reason_is_said(run: Groups) -> None:
    chart = replay_chart(case_of(run))
    assert not chart.drawn
    assert chart.missing.startswith("Nothing can be replayed: ")


def test_what_the_log_lacks_is_said_and_a_dead_run_is_drawn() -> None:
    chart = replay_chart(case_of(Groups.from_nested([[0, 0]] * 6, step=[0, 0, 1, 1, 2, 2])))
    assert "greso" not in chart.labels
    assert "greso: greso needs to know which prompt" in chart.note
    place = chart.labels.index("dynamic_sampling")
    assert chart.series[0].values[place] is None
    assert chart.ends[place] == "–, +900% rollouts"
    assert "10 times the rollouts" in chart.lead
    json.dumps(chart.as_dict(), allow_nan=False)


def test_it_stands_in_the_report_file_and_only_there(tmp_path) -> None:
    diagnosis = diagnose(made_run(steps=10))
    html = diagnosis.to_html(tmp_path / "report.html").read_text()
    assert "replay" in json.loads(Page(html).scripts[0])
    assert 'href="#remedies"' in html
    assert len(html.encode()) < LIMIT
    assert 'href="#remedies"' not in page(View.of(diagnosis))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element(text: str) -> None:
    pages = [
        Page(page(View.of(diagnose(hostile_run(one)), replayed=True))) for one in ("harmless", text)
    ]
    assert [tag for tag, _ in pages[0].elements] == [tag for tag, _ in pages[1].elements]


def test_hostile_reasons_are_made_visible() -> None:
    played = Outcome("grpo", effective_batch=1.0, tied_moved=0.0)
    chart = outcome_chart([played, Outcome("gdpo", skipped="column '\x1b[31m' \u202e")])
    assert "\x1b" not in chart.note
    assert "\u202e" not in chart.note


def log(tmp_path, text="p"):
    rng = np.random.default_rng(0)
    path = tmp_path / "run.jsonl"
    rows = [
        {"step": step, "group": f"{step}-{g}", "prompt_id": f"{text}{g}", "reward": float(r)}
        for step in range(6)
        for g in range(4)
        for r in rng.integers(0, 2, 4) * (g > 0)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_cli(capsys, *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as done:
        main([str(one) for one in arguments])
    return done.value.code, capsys.readouterr().out


def test_the_command_writes_a_page(tmp_path, capsys) -> None:
    target = tmp_path / "replay.html"
    code, out = run_cli(capsys, "replay", log(tmp_path), "--html", target)
    assert code == 0
    assert out.endswith(f"report: {target}\n")
    html = target.read_text()
    parsed = Page(html)
    chart = json.loads(parsed.scripts[0])["replay"]
    assert {"grpo", "avspo", "dynamic_sampling", "krpo"} <= set(chart["labels"])
    text = " ".join(parsed.texts)
    assert "dynamic_sampling: estimate: each step's batch is filled up" in text
    assert "ep_grpo: played without token/entropy" in text
    assert len(html.encode()) < LIMIT
    assert not re.search(
        r"https?://(?!www.w3.org|www.apache.org|github.com)", " ".join(parsed.texts)
    )


def test_json_has_the_costs_and_nothing_else_is_printed(tmp_path, capsys) -> None:
    target = tmp_path / "replay.html"
    code, out = run_cli(
        capsys, "replay", log(tmp_path), "--json", "--html", target, "--remedy",
        "grpo,dynamic_sampling,sapo",
    )  # fmt: skip
    assert code == 0
    assert target.exists()
    grpo, dynamic, loss = json.loads(out)["remedies"]
    assert grpo["extra_rollouts"] == 0
    assert dynamic["extra_rollouts"] == pytest.approx((dynamic["rollouts"] - 1) * 96)
    assert dynamic["rollouts"] > 1
    assert "estimate" in dynamic["how"]
    assert loss["extra_rollouts"] is None


def test_the_table_has_the_cost_within_eighty_columns(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out = run_cli(capsys, "replay", log(tmp_path))
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    heading = next(line for line in lines if line.startswith("remedy"))
    assert re.sub(" +", " ", heading) == (
        "remedy ACR after moved tied sign phantom cost max |A| rms |A|"
    )
    dynamic = next(line for line in lines if line.startswith("dynamic_sampling"))
    assert re.search(r"\+\d+%", dynamic)
    assert replay_panel.LEGEND.split(".")[0] in " ".join(out.split())

"""The plan of a run: what is counted, what is refused and why, and the three forms it takes."""

from __future__ import annotations

import io
import json
from html import unescape

import numpy as np
import pytest
from rich.console import Console
from test_html_report import Page

from buttress.cli import main
from buttress.errors import ButtressError
from buttress.groups import Groups, LogFacts, Run
from buttress.report.html import page
from buttress.report.plan import Plan, render, to_html
from buttress.rules import Case
from buttress.rules.rollout_counts import rollout_counts

RNG = np.random.default_rng(0)


def outcomes(rate, groups=200, size=8):
    return (RNG.random((groups, size)) < np.resize(rate, groups)[:, None]).astype(float)


def plan_of(groups, **options):
    return Plan.of(Case(groups if isinstance(groups, Run) else Run(groups)), **options)


def test_a_reward_of_two_levels_is_counted_whatever_they_are():
    won = outcomes([0.1, 0.6])
    tables = [
        rollout_counts(Case(Run(Groups.from_dense(scale))))[0]
        for scale in (won, 2 * won - 1, 0.3 * won + 0.2)
    ]
    for table in tables:
        assert table.by == "reward"
        assert (table.table == tables[0].table).all()


def test_correctness_stands_in_for_a_shaped_reward():
    won = outcomes([0.1, 0.6])
    shaped = won + RNG.normal(0, 0.1, won.shape)
    found = plan_of(Groups.from_dense(shaped, correct=won))
    assert found.counted.by == "correct"
    assert "success is `correct`" in found.counted.note
    plain = plan_of(Groups.from_dense(won))
    assert found.as_dict()["sizes"] == plain.as_dict()["sizes"]


def test_levels_stand_in_where_nothing_says_success():
    graded = RNG.integers(0, 4, (100, 8)) / 3
    found = plan_of(Groups.from_dense(graded), sizes=[2, 16])
    assert found.counted.by == "levels of the reward"
    two, sixteen = found.as_dict()["sizes"]
    assert two["acr"] == pytest.approx(0.25, abs=0.05)
    assert sixteen["acr"] is None
    assert found.as_dict()["floor"] is None


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (Run(Groups.from_dense(RNG.normal(size=(40, 8)))), "320 levels"),
        (Run(Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4)), "single rollout"),
        (Run(Groups.from_dense(np.tile([0.0, 1], (9, 4))), facts=LogFacts(filtered=True)), "filte"),
        (Run(Groups.from_nested([])), "no rollouts"),
        (Run(Groups.from_nested([[None, None]])), "scored"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_reason(run, why):
    with pytest.raises(ButtressError, match=why):
        plan_of(run)


def test_rollouts_of_a_prompt_are_pooled_over_the_second_half():
    early, late = np.zeros((40, 4)), outcomes([0.5], 40, 4)
    groups = Groups.from_dense(
        np.concatenate([early, late]), step=np.repeat([1, 2, 3, 4], 20), prompt_id=[*range(20)] * 4
    )
    found = plan_of(groups).as_dict()
    assert (found["prompts"], found["rollouts_per_prompt"]) == (20, 8)
    assert found["floor_interval"][0] < 0.2


def test_the_floor_of_a12_is_a_finding_of_the_plan():
    found = plan_of(Groups.from_dense(outcomes([0.0, 0.364], 400, 16))).as_dict()
    assert [one["rule"] for one in found["findings"]] == ["group-size-floor"]
    assert plan_of(Groups.from_dense(outcomes([0.18], 400, 16))).findings == ()


def test_terminal_and_page_say_the_same():
    found = plan_of(Groups.from_dense(outcomes([0.0, 0.4], 100)), budget=512)
    out = io.StringIO()
    render(found, Console(file=out, width=100))
    said = " ".join(out.getvalue().split())
    assert found.sentence in said
    for row in found.table:
        assert " ".join(row) in said


def test_the_page_is_self_contained(tmp_path):
    found = plan_of(Groups.from_dense(outcomes([0.0, 0.4], 100)))
    path = to_html(found, tmp_path / "plan.html")
    html = path.read_text()
    parsed = Page(html)
    assert "default-src 'none'" in unescape(html)
    assert [tag for tag, _ in parsed.elements if tag in ("link", "img", "iframe")] == []
    assert found.sentence in " ".join(parsed.texts)
    data = json.loads(parsed.scripts[0])
    assert data["sizes"]["labels"] == ["2", "4", "8", "16*", "32*", "64*"]


def test_the_report_of_a_run_has_the_panel():
    from made_runs import view_of

    view = view_of(Groups.from_dense(outcomes([0.0, 0.4], 100)))
    assert view.chart("sizes").drawn
    assert "Collapse rate at other group sizes" in page(view)
    absent = view_of(Groups.from_dense(RNG.normal(size=(40, 8)))).chart("sizes")
    assert "320 levels" in absent.missing


def left_with(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return int(left.value.code or 0)


def test_the_command(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    rows = [
        {"group": g, "prompt_id": f"p{g}", "reward": int(one)}
        for g, group in enumerate(outcomes([0.0, 0.4], 60))
        for one in group
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert left_with("plan", path, "--json", "--budget", "128", "--sizes", "4,8") == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["group_size"] for row in report["sizes"]] == [4, 8]
    assert report["budget"] == 128
    assert left_with("plan", path, "--html", tmp_path / "plan.html") == 0
    assert "plan.html" in capsys.readouterr().out.replace("\n", "")
    assert left_with("plan", path, "--sizes", "four") == 2
    assert "whole numbers" in capsys.readouterr().err
    assert left_with("plan", path, "--budget", "0") == 2
    assert left_with("plan", tmp_path / "nothing") == 2

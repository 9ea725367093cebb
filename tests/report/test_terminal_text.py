"""The report on a terminal: complete, narrow when it must be, and harmless."""

from __future__ import annotations

import io
import re

import pytest
from made_runs import hostile_run, made_run
from rich.cells import cell_len
from rich.console import Console
from test_hostile_text import obeyed

from buttress.groups import Groups, Problem, Run
from buttress.report import Diagnosis, diagnose, terminal
from buttress.report.view import View

HOSTILE = [
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link",
    "[bold red]markup[/bold red] [/] [link=http://evil]x[/link]",
    "\u202egnp.exe\u2066",
    "nul\x00 \x9b31m del\x7f",
    "lone \ud800 surrogate",
    "two\nlines\r\noverwrite\rthis",
]


def printed(diagnosis: Diagnosis, width: int = 100, *, colour: bool = False) -> str:
    out = io.StringIO()
    terminal.render(diagnosis, Console(file=out, width=width, force_terminal=colour))
    return out.getvalue()


def test_it_says_everything_that_matters() -> None:
    diagnosis = diagnose(made_run(ease=-0.3))
    view = View.of(diagnosis)
    said = " ".join(printed(diagnosis).split())
    assert view.sentence in said
    for number in view.numbers:
        assert number.label in said
        assert number.value in said
    for finding in view.findings:
        assert f"{finding.severity}[{finding.code}] {finding.rule}: {finding.message}" in said
        assert f"--> {finding.steps}" in said
        for name, value in finding.evidence:
            assert f"| {name} {value}" in said
        for advice in finding.advice:
            assert f"do: {advice.action[:30]}" in said
        assert finding.see in said
    assert "57.jsonl:64: cut off" in said
    assert "groups: rows of one step and prompt text" in said
    assert "1e-06 + 1e-06" in said


def test_a_diagnosis_is_one_line_in_a_session() -> None:
    said = repr(diagnose(made_run(ease=-0.3)))
    assert said.startswith("Diagnosis(")
    assert "[BT" in said
    assert len(said) < 1000
    assert "\n" not in said


@pytest.mark.parametrize("width", range(64, 121, 7))
def test_no_item_of_the_legend_is_torn(width: int) -> None:
    lines = printed(diagnose(made_run(ease=-0.3)), width).splitlines()
    for item in ("mixed", "all wrong", "all correct"):
        (line,) = (line for line in lines if re.search(rf"[░█▓] {item} ", line))
        assert re.search(rf"{item} [\d,]+ \(\S+%\)", line)


def test_a_problem_without_a_file_begins_with_what_is_wrong() -> None:
    groups = Groups.from_nested([[1, 0]])
    said = printed(diagnose(Run(groups, problems=(Problem("", 0, "no groups are named"),))))
    assert "\n  no groups are named\n" in said


def test_findings_stand_in_their_order() -> None:
    diagnosis = diagnose(made_run(ease=-0.5))
    said = printed(diagnosis)
    places = [said.index(f"[{finding.code}]") for finding in diagnosis.findings]
    assert places
    assert places == sorted(places)


def test_colours_only_on_a_terminal() -> None:
    diagnosis = diagnose(made_run(steps=20))
    assert "\x1b" not in printed(diagnosis)
    assert "\x1b[" in printed(diagnosis, colour=True)


def test_colour_adds_nothing_but_colour() -> None:
    diagnosis = diagnose(made_run(steps=20, ease=-0.3))
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", printed(diagnosis, colour=True))
    assert [line.rstrip() for line in coloured.splitlines()] == printed(diagnosis).splitlines()


@pytest.mark.parametrize("width", [20, 33, 48, 64, 80, 100, 200])
def test_no_line_is_wider_than_the_console(width: int) -> None:
    diagnosis = diagnose(made_run(steps=40, ease=-0.3))
    lines = printed(diagnosis, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    # nothing is cut off with an ellipsis either
    assert not any("…" in line for line in lines)


def test_words_survive_a_narrow_console() -> None:
    diagnosis = diagnose(made_run(steps=40, ease=-0.3))
    wide, narrow = (printed(diagnosis, width) for width in (100, 40))
    for word in ("advantage-collapse", "57.jsonl:64"):
        assert word in wide
        assert word.replace("-", "") in re.sub(r"[\s-]", "", narrow)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_obeyed_by_nothing(text: str) -> None:
    said = printed(diagnose(hostile_run(text)))
    assert obeyed(said, allowed="\n") == []


def test_markup_is_printed_as_it_stands() -> None:
    coloured = printed(diagnose(hostile_run("[red]x[/red]")), colour=True)
    assert "[red]x[/red]" in coloured
    assert "[/]" in printed(diagnose(hostile_run("[/]")))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_console_of_another_encoding_gets_readable_text(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    terminal.render(diagnose(made_run(steps=30, ease=-0.3)), Console(file=stream, width=80))
    stream.flush()
    said = raw.getvalue().decode(encoding)
    assert "advantage-collapse" in said
    assert "\\u" not in said
    assert "max - min <= 1e-06" in said


@pytest.mark.parametrize(
    "run",
    [
        Run(Groups.from_nested([])),
        Groups.from_nested([[None, None]]),
        Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4),
    ],
)
def test_unknown_is_a_dash(run: Run | Groups) -> None:
    said = printed(diagnose(run))
    assert re.search(r"Collapse rate \(ACR\)\s+–", said)
    assert "0.00" not in said


def test_a_kind_of_group_that_exists_is_visible_in_the_strip() -> None:
    nested = [[0, 1]] * 500 + [[1, 1]]
    said = printed(diagnose(Groups.from_nested(nested)))
    strip = next(line for line in said.splitlines() if line.startswith("Groups"))
    assert strip.count("▓") == 1
    assert "█" not in strip

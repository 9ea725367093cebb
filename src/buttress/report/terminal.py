"""The report on a terminal: like the output of a good compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from buttress.report import phrases
from buttress.report.chart import Chart
from buttress.report.headline import Number, Part
from buttress.report.view import FindingView, View, severities

if TYPE_CHECKING:
    from buttress.report.diagnosis import Diagnosis

PROBLEMS = 10
WIDEST = 110  # longer lines are hard to read
NARROW = 64
LABELS = 24  # the column of labels, and the space after it

_VERDICT = {
    "healthy": "bold green",
    "attention": "bold yellow",
    "collapsed": "bold red",
    "undefined": "bold magenta",
}
_SEVERITY = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_PART = {"mixed": "blue", "wrong": "red", "correct": "green", "between": "yellow", "muted": "dim"}
# apart also without colour
_BLOCK = {"mixed": "░", "wrong": "█", "correct": "▓", "between": "▒", "muted": "·"}
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN = str.maketrans(
    {
        "–": "-", "−": "-", "…": "...", "·": ".", "≤": "<=", "▌": "|",
        "░": ".", "▒": "+", "▓": "o", "█": "#",
        **dict(zip(_BARS[:-1], "_.-~=+*", strict=True)),
    }
)  # fmt: skip


def render(diagnosis: Diagnosis, console: Console) -> None:
    """Print a diagnosis; colours are left out where the console is not a terminal."""
    width = min(console.width, WIDEST)
    page = Group(*_page(View.of(diagnosis, brief=True), width))
    encoding = console.encoding or "utf-8"
    unicode = encoding.lower().startswith("utf")
    if console.is_terminal and unicode:
        console.print(page, width=width, highlight=False)
        return
    with console.capture() as captured:
        console.print(page, width=width, highlight=False)
    # tables are padded to their width, which is of no use in a file
    text = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    if not unicode:
        # a console of another encoding would raise on the first dash
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    console.file.write(text)


def _page(view: View, width: int) -> Iterator[RenderableType]:
    yield Text.assemble(("buttress ", "bold"), (view.version, "dim"), "  ", view.name)
    yield Text()
    yield Text.assemble(
        (view.headline, _VERDICT[view.verdict]), (": ", _VERDICT[view.verdict]), view.sentence
    )
    yield Text()
    yield _summary(view, width)
    for finding in view.findings:
        yield Text()
        yield from _finding(finding, width)
    yield from _problems(view)
    yield Text()
    yield _footer(view)


def _summary(view: View, width: int) -> RenderableType:
    grid = _grid(width)
    room = max(10, min(60, width - 26))
    for row in view.numbers:
        grid.add_row(Text(row.label, "dim"), _number(row))
    if view.parts:
        picture = Group(_strip(view.parts, room), _legend(view.parts, width - LABELS))
        grid.add_row(Text("Groups", "dim"), picture)
    course = view.chart("acr")
    if course.drawn:
        grid.add_row(Text("Over the run", "dim"), _sparkline(course, room))
    wanted = ("Rollouts", "Group sizes", "Steps", "Format", "Inferred", "Tied")
    for name, said in view.facts:
        if name in wanted:
            grid.add_row(Text(name, "dim"), Text(said))
    return grid


def _grid(width: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=width >= NARROW, max_width=LABELS - 2, overflow="fold")
    grid.add_column(overflow="fold")
    return grid


def _number(number: Number) -> Text:
    return Text.assemble((number.value, "bold"), "  ", (number.note, "dim"))


def _strip(parts: tuple[Part, ...], width: int) -> Text:
    """Draw the shares; what exists has a cell, however small its share."""
    strip = Text()
    spare = width - sum(part.groups > 0 for part in parts)
    reached = 0.0
    for part in parts:
        before, reached = reached, reached + part.share
        cells = (part.groups > 0) + round(reached * spare) - round(before * spare)
        strip.append(_BLOCK[part.colour] * cells, _PART[part.colour])
    return strip


def _legend(parts: tuple[Part, ...], width: int) -> RenderableType:
    items = [
        Text.assemble((_BLOCK[part.colour], _PART[part.colour]), f" {part.name} {part.text}")
        for part in parts
    ]
    line = Text("   ").join(items)
    return line if line.cell_len <= width else Group(*items)


def _sparkline(chart: Chart, width: int) -> RenderableType:
    """Draw the collapse rate, several steps to a cell where they do not fit."""
    kinds = [one.values for one in chart.series if not one.line]
    rates = [None if None in point else sum(point) for point in zip(*kinds, strict=True)]
    per = -(-len(rates) // width)
    cells = Text()
    for start in range(0, len(rates), per):
        known = [rate for rate in rates[start : start + per] if rate is not None]
        if not known:
            cells.append(" ")
            continue
        mean = sum(known) / len(known)
        above = chart.limit is not None and mean > chart.limit
        cells.append(_BARS[min(7, int(mean * 8))], "red" if above else "blue")
    note = f"ACR, step {chart.labels[0]} to {chart.labels[-1]}; full height is 1"
    return Group(cells, Text(note, "dim"), Text(chart.lead))


def _finding(finding: FindingView, width: int) -> Iterator[RenderableType]:
    style = _SEVERITY[finding.severity]
    yield Text.assemble(
        (f"{finding.severity}[{finding.code}]", style), (f" {finding.rule}", "bold"), ": ",
        (finding.message, "bold"),
    )  # fmt: skip
    if finding.steps:
        yield Text.assemble(("  --> ", "blue"), finding.steps)
    yield _evidence(finding, width)
    for advice in finding.advice:
        body = Text.assemble(("do: ", "bold cyan"), advice.action)
        yield hanging("   = ", body)
        for name, said in (("why", advice.why), ("cost", advice.cost)):
            if said:
                yield hanging("     ", Text.assemble((f"{name}: ", "dim"), said))
    if finding.see:
        yield hanging("   = ", Text.assemble(("do: ", "bold cyan"), finding.see))


def _evidence(finding: FindingView, width: int) -> RenderableType:
    if width < NARROW:
        lines = [Text.assemble((f"{name}: ", "dim"), said) for name, said in finding.evidence]
        return Group(*(hanging("   | ", line) for line in lines))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="blue", width=4)
    table.add_column(style="dim", max_width=34, overflow="fold")
    table.add_column(overflow="fold")
    for name, said in finding.evidence:
        table.add_row("   |", Text(name), Text(said))
    return table


def hanging(mark: str, body: Text) -> Table:
    """Return a paragraph whose later lines stand under its first."""
    grid = Table.grid()
    grid.add_column(style="blue", width=len(mark))
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark), body)
    return grid


def _problems(view: View) -> Iterator[RenderableType]:
    total = len(view.problems) + view.problems_left_out
    if not total:
        return
    yield Text()
    yield Text(f"{phrases.count(total, 'problem')} while reading; the rest was read", "bold yellow")
    for problem in view.problems[:PROBLEMS]:
        place = (f"{problem.place}: ", "bold") if problem.place else ""
        yield Padding(Text.assemble(place, problem.message), (0, 0, 0, 2))
    if total > PROBLEMS:
        yield Text(f"  and {total - PROBLEMS:,} more (--json lists all)", "dim")


def _footer(view: View) -> Text:
    said = Text.assemble((view.headline.lower(), _VERDICT[view.verdict]), ": ")
    said.append(severities(view.findings))
    if view.findings:
        said.append(f". More on a rule: buttress explain {view.findings[0].code}", "dim")
    return said

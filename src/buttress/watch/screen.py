"""What a watched job looks like: a live view on a terminal, a line per look elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from buttress.measures import KINDS
from buttress.report import Diagnosis, phrases
from buttress.report.hostile import safe_name, safe_text
from buttress.report.over_steps import KIND_NAMES
from buttress.report.prompt_rows import prompt_rows
from buttress.report.view import finding_views
from buttress.watch.watcher import Look

RECENT = 60  # steps, a cell each
FINDINGS = 6
PROMPTS = 5
_BARS = "▁▂▃▄▅▆▇█"
_STYLE = {"healthy": "green", "attention": "yellow", "collapsed": "red", "undefined": "magenta"}
_SEVERITY = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_KIND = {"all_wrong": "red", "all_correct": "green", "tied_between": "yellow"}


class Screen:
    """Shows look after look; use it as a context."""

    def __init__(self, path: str, console: Console) -> None:
        self._path, self._console = path, console
        self._said: set[str] = set()
        self._body: RenderableType = Text("nothing to read yet", style="dim")
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, look: Look) -> None:
        """Show one look."""
        news = look.diagnosis if look.changed else None
        if self._live is None:
            if news is not None:
                self._print(news)
            return
        if news is not None:
            self._body = Group(*page(news))
        head = Text.assemble((safe_text(self._path), "bold"), f"  quiet for {look.idle:.0f} s")
        self._live.update(Group(head, self._body), refresh=True)

    def _print(self, diagnosis: Diagnosis) -> None:
        """Print the state, and of the findings those that come and go."""
        lines = [one_line(diagnosis)]
        views = {view.rule: view for view in finding_views(diagnosis.findings)}
        for rule, view in views.items():
            if rule not in self._said:
                lines.append(f"  {view.severity}[{view.code}] {rule}: {view.message}")
        lines += [f"  over: {rule}" for rule in sorted(self._said - views.keys())]
        self._said = set(views)
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def one_line(diagnosis: Diagnosis) -> str:
    """Return step, collapse rate by kind, and verdict in one line."""
    found = diagnosis.as_dict()
    steps, measures = found["steps"], found["measures"]
    counts = measures["groups"]
    last = steps[-1]["step"] if steps else phrases.DASH
    rate = phrases.rate(measures["acr"])
    now = phrases.rate(steps[-1]["acr"] if steps else None)
    kinds = ", ".join(
        f"{counts[kind]} {kind.replace('_', ' ')}" for kind in ("all_wrong", "all_correct", "mixed")
    )
    worst = diagnosis.findings[0].rule if diagnosis.findings else "no findings"
    return f"step {last}  ACR {rate} (now {now})  {kinds}  {diagnosis.verdict}: {worst}"


def page(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """Yield the parts of the live view; text from files is harmless in all of them."""
    yield Text(one_line(diagnosis), style=_STYLE[diagnosis.verdict])
    yield _course(diagnosis)
    for view in finding_views(diagnosis.findings[:FINDINGS]):
        said = f"{view.severity}[{view.code}]", _SEVERITY[view.severity]
        yield Text.assemble(said, (f" {view.rule}", "bold"), f": {view.message}")
        if view.advice:
            yield Text.assemble(("   do: ", "cyan"), view.advice[0].action)
    if (left := len(diagnosis.findings) - FINDINGS) > 0:
        yield Text(f"and {phrases.count(left, 'more finding')}", style="dim")
    yield from _prompts(diagnosis)
    if diagnosis.problems:
        yield Text(f"{phrases.count(len(diagnosis.problems), 'problem')} while reading", "yellow")


def _course(diagnosis: Diagnosis) -> RenderableType:
    """Draw the share of tied groups over the last steps, each kind by itself."""
    steps = diagnosis.case.steps
    eligible = steps.eligible[-RECENT:]
    if diagnosis.case.undefined or not eligible.any():
        return Text("the collapse rate is not known", style="dim")
    table = Table.grid(padding=(0, 2))
    with np.errstate(invalid="ignore"):
        rows = [("ACR", "bold", steps.acr[-RECENT:])]
        rows += [
            (KIND_NAMES[kind], _KIND[kind], getattr(steps, kind)[-RECENT:] / eligible)
            for kind in KINDS
            if getattr(steps, kind)[-RECENT:].any()
        ]
    for name, style, rates in rows:
        table.add_row(name, Text(_cells(rates), style), phrases.rate(float(rates[-1])))
    first, last = steps.step[-RECENT:][0], steps.step[-1]
    table.add_row("", Text(f"step {first} to {last}; full height is 1", "dim"), "")
    return table


def _cells(rates: Any) -> str:
    """Return a bar per rate; a gap where it is unknown.

    >>> _cells([0.0, 0.5, 1.0, float("nan")])
    '▁▅█ '
    """
    return "".join(" " if rate != rate else _BARS[min(7, int(rate * 8))] for rate in rates)


def _prompts(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """Yield the prompts that tie most often."""
    rows = [row for row in prompt_rows(diagnosis.case, PROMPTS) if row["tied"]]
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("worst prompts", "tied", "rate", "state", "advice"):
        table.add_column(heading)
    for row in rows:
        tied = f"{row['tied']:,} of {row['groups']:,}"
        name = Text(safe_name(row["prompt_id"]))
        table.add_row(name, tied, phrases.rate(row["rate"]), row["state"], row["advice"])
    yield table

"""The pages of rules and remedies, on the terminal and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from buttress.errors import UsageError
from buttress.remedies import Remedy
from buttress.remedies import remedies as catalogue
from buttress.report.document import plain
from buttress.report.terminal import hanging
from buttress.rules import RULES

_ITEM = "- "


def explain(name: str | None, console: Console) -> None:
    """Print the page of one rule, or the list of all."""
    if name is None:
        table = _table("rule", "code", "says")
        for rule in sorted(RULES.values(), key=lambda one: one.code):
            table.add_row(rule.name, rule.code, rule.title)
        console.print(table)
        return
    wanted = [rule for rule in RULES.values() if name in (rule.name, rule.code, rule.code.lower())]
    if not wanted:
        raise UsageError.unknown("rule", name, RULES)
    rule = wanted[0]
    console.print(Text.assemble((rule.name, "bold"), "  ", (rule.code, "dim")))
    _page(rule.page, console)
    if rule.explains:
        console.print(Text.assemble(("Explains  ", "bold"), ", ".join(rule.explains)))


def remedies(name: str | None, console: Console, *, as_json: bool) -> None:
    """Print the page of one remedy, or the catalogue."""
    known = {remedy.name: remedy for remedy in catalogue()}
    if name is not None and name not in known:
        raise UsageError.unknown("remedy", name, known)
    chosen = [known[name]] if name else list(known.values())
    if as_json:
        records = [_record(remedy) for remedy in chosen]
        console.file.write(msgspec.json.format(msgspec.json.encode(records)).decode() + "\n")
    elif name:
        _remedy_page(chosen[0], console)
    else:
        table = _table("remedy", "kind", "paper", "does")
        for remedy in chosen:
            table.add_row(remedy.name, remedy.kind, remedy.paper, remedy.title)
        console.print(table)


def _record(remedy: Remedy) -> dict[str, Any]:
    return {
        "name": remedy.name,
        "paper": remedy.paper,
        "kind": remedy.kind,
        "options": plain(remedy.options),
        "summary": remedy.title,
        "formula": remedy.formula,
        "ties": remedy.ties,
        "cost": remedy.cost,
        "plugs_in": remedy.plugs_in,
        "inferred": remedy.inferred,
    }


def _remedy_page(remedy: Remedy, console: Console) -> None:
    console.print(Text.assemble((remedy.name, "bold"), "  ", (remedy.paper, "dim")))
    _page(remedy.page, console)
    options = ", ".join(f"{key}={value!r}" for key, value in remedy.options.items())
    console.print(Text.assemble(("Options  ", "bold"), options or "none"))


def _page(page: str, console: Console) -> None:
    """Print a docstring: headings bold, their text indented and filled to the width."""
    paragraph: list[str] = []

    def flush(indent: int) -> None:
        if paragraph:
            body = Text(" ".join(paragraph).replace("``", "`"))
            item = body.plain.startswith(_ITEM)
            whole = hanging(_ITEM, body[len(_ITEM) :]) if item else body
            console.print(Padding(whole, (0, 0, 0, indent)))
            paragraph.clear()

    indent = 0
    for line in [*page.splitlines(), ""]:
        text = line.strip()
        deep = 2 if line.startswith("    ") else 0
        if not text or deep != indent or text.startswith(_ITEM):
            flush(indent)
        indent = deep
        if not text:
            console.print()
        elif not deep and len(text) < 20 and text[0].isupper() and not text.endswith("."):
            flush(0)
            console.print(Text(text, style="bold"))
        else:
            paragraph.append(text)


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, no_wrap=place == 0, overflow="fold")
    return table

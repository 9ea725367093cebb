"""What a watched job looks like: a live view on a terminal, a line per look elsewhere."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from buttress.report import Diagnosis
from buttress.report.hostile import safe_text
from buttress.watch.watcher import Look

RECENT = 12
_STYLE = {"healthy": "green", "attention": "yellow", "collapsed": "red", "undefined": "magenta"}
_SEVERITY = {"ERROR": "red", "WARNING": "yellow", "INFO": "cyan"}


class Screen:
    """Shows look after look; use it as a context."""

    def __init__(self, path: str, console: Console) -> None:
        self._path, self._console = path, console
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
        if self._live is not None:
            self._live.update(self._page(look), refresh=True)
        elif look.changed and look.diagnosis is not None:
            self._console.print(one_line(look.diagnosis), markup=False, highlight=False)

    def _page(self, look: Look) -> RenderableType:
        head = Text.assemble((safe_text(self._path), "bold"), f"  quiet for {look.idle:.0f} s")
        if look.diagnosis is None:
            return Group(head, Text("nothing to read yet", style="dim"))
        said = Text(one_line(look.diagnosis), style=_STYLE[look.diagnosis.verdict])
        return Group(head, said, _steps(look.diagnosis), _findings(look.diagnosis))


def one_line(diagnosis: Diagnosis) -> str:
    """Return step, collapse rate by kind, and verdict in one line."""
    found = diagnosis.as_dict()
    steps, measures = found["steps"], found["measures"]
    counts = measures["groups"]
    last = steps[-1]["step"] if steps else "–"
    rate = "–" if measures["acr"] is None else f"{measures['acr']:.2f}"
    now = "–" if not steps or steps[-1]["acr"] is None else f"{steps[-1]['acr']:.2f}"
    kinds = ", ".join(
        f"{counts[kind]} {kind.replace('_', ' ')}" for kind in ("all_wrong", "all_correct", "mixed")
    )
    worst = diagnosis.findings[0].rule if diagnosis.findings else "no findings"
    return f"step {last}  ACR {rate} (now {now})  {kinds}  {diagnosis.verdict}: {worst}"


def _steps(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("step", "ACR", "all wrong", "all correct", "mixed", "reward"):
        table.add_column(name, justify="right")
    for step in diagnosis.as_dict()["steps"][-RECENT:]:
        numbers = [step["acr"], step["all_wrong"], step["all_correct"], step["mixed"]]
        shown = ["–" if one is None else f"{one:.3g}" for one in (*numbers, step["reward_mean"])]
        table.add_row(str(step["step"]), *shown)
    return table


def _findings(diagnosis: Diagnosis) -> RenderableType:
    lines = [
        Text.assemble(
            (f"{one.severity.name.lower()}  ", _SEVERITY[one.severity.name]),
            (one.rule, "bold"),
            f"  {safe_text(one.message)}",
        )
        for one in diagnosis.findings[:8]
    ]
    return Group(*lines)

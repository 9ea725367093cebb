"""The scores as a table on the terminal, and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buttress.errors import UsageError
from buttress.lab.yardstick.bench import COMMAND, HALVES, Bench
from buttress.lab.yardstick.kinds import KINDS
from buttress.lab.yardstick.tools import BUTTRESS

if TYPE_CHECKING:
    from rich.console import Console


def render(bench: Bench, console: Console) -> None:
    """Print the scores of every tool, and those of buttress per cause."""
    from rich.box import SIMPLE
    from rich.table import Table

    console.print(f"{bench.runs} runs; per cause: precision / recall")
    for rows in (_overall(bench), _causes(bench)):
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
        for column in rows[0]:
            first = column == rows[0][0]
            table.add_column(column, justify="left" if first else "right", no_wrap=first)
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)


def write(bench: Bench, folder: Path) -> None:
    """Write ``diagnosis.json`` with everything and ``diagnosis.md`` with the tables."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(bench.evidence(), indent=1)
        (folder / "diagnosis.json").write_text(text + "\n", encoding="utf-8")
        (folder / "diagnosis.md").write_text(_markdown(bench), encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"cannot write to {folder}: {fault.strerror or fault}") from None


def _overall(bench: Bench) -> list[list[str]]:
    """Return one row per tool: macro-F1 over all runs and over each half, and false alarms."""
    halves = [bench.half(half)["tools"] for half in HALVES]
    rows = [["tool", "macro-F1", *HALVES, "false alarms"]]
    for name, one in bench.as_dict()["tools"].items():
        shares = [f"{half[name]['macro_f1']:.3f}" for half in halves]
        rows.append([name, f"{one['macro_f1']:.3f}", *shares, str(one["false_alarms"])])
    return rows


def _causes(bench: Bench) -> list[list[str]]:
    """Return one row per cause: precision and recall of every tool."""
    tools: dict[str, Any] = bench.as_dict()["tools"]
    rows = [["cause", "runs", *tools]]
    for cause, own in tools[BUTTRESS]["per_cause"].items():
        shares = [_share(one["per_cause"][cause]) for one in tools.values()]
        rows.append([cause, str(own["runs"]), *shares])
    return rows


def _share(found: dict[str, Any]) -> str:
    precision = found["precision"]
    said = "-" if precision is None else f"{precision:.2f}"
    return f"{said} / {found['recall']:.2f}"


def _markdown(bench: Bench) -> str:
    missed = [
        f"- `{answer.recipe.name}`: {', '.join(unnamed)}"
        for answer in bench.answers[BUTTRESS]
        if (unnamed := sorted(set(answer.recipe.kind.labels) - answer.named))
    ]
    parts = [
        "# Do diagnoses name the cause?",
        bench.conclusion(),
        f"{bench.runs} runs of {len(KINDS)} kinds, recorded in the laboratory and with TRL, with "
        "known causes put in. Command:",
        f"    {COMMAND}",
        "The development half may mend rules, the held-out half is only counted. What a tool says "
        "is read with every benefit of the doubt: a message that can mean several causes means the "
        "true one.",
        _table(_overall(bench)),
        "Precision / recall per cause:",
        _table(_causes(bench)),
    ]
    if missed:
        parts += ["Causes that buttress did not name:", "\n".join(missed)]
    return "\n\n".join(parts) + "\n"


def _table(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

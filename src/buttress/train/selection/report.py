"""How a selection looks: a table of levels on a terminal, or JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.report.document import to_json
from buttress.report.hostile import safe_text
from buttress.train.selection.select import Selected


def as_json(found: Selected) -> str:
    """Return the summary as strict JSON."""
    counts = {("none" if level is None else str(level)): n for level, n in found.counts().items()}
    return to_json(
        {
            "schema": 1,
            "problems": len(found.rows),
            "levels": counts,
            "bands": list(found.bands),
            "sample": {
                "level": found.level,
                "problems": len(found.chosen),
                "prompt_id": [found.rows[place]["prompt_id"] for place in found.chosen],
            },
            "files": [str(path) for path in found.files],
            "notes": found.notes,
        }
    )


def render(found: Selected, console: Console) -> None:
    """Print the number of problems of each level, and what was written."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("level", "success rate", "problems", "share"):
        table.add_column(heading, justify="right")
    for level, count in found.counts().items():
        share = f"{count / len(found.rows):.1%}"
        table.add_row(
            "–" if level is None else str(level), _band(found.bands, level), f"{count:,}", share
        )
    console.print(table)
    console.print(
        Text(f"{len(found.chosen):,} problems of level {found.level}: {safe_text(found.files[1])}")
    )
    console.print(Text(f"all {len(found.rows):,} with counts: {safe_text(found.files[0])}"))


def _band(bands: Sequence[float], level: int | None) -> str:
    if level is None:
        return "not judged"
    low = bands[level] if level < len(bands) else 0.0
    high = bands[level - 1] if level else 1.0
    return f"{low:.0%} to {high:.0%}"

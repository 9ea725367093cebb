"""One row per prompt: tries, successes, interval, state, advice; as table, JSON or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.errors import InputError, UsageError
from buttress.measures import wilson_interval
from buttress.report.document import plain, to_json
from buttress.report.files import target
from buttress.report.hostile import safe_name
from buttress.report.prompt_states import STATES, prompt_states
from buttress.rules import Case

SHOWN = 40
_NOTE = (
    "tries and rate are of the whole run, the state is that of its end: a mastered prompt had "
    "nothing but success over its latest eight rollouts or more"
)
SUFFIXES = (".csv", ".jsonl", ".parquet")


def prompt_rows(case: Case, most: int | None = None) -> list[dict[str, Any]]:
    """Return one row per prompt, those that tie most often first; None where unknown.

    `low` and `high` are a 95 % Wilson interval of the success rate. `most` is the number of rows;
    all by default.
    """
    table, states, originals = prompt_states(case)
    rows = []
    for place in np.argsort(-table.tied / np.maximum(table.groups, 1), kind="stable")[:most]:
        tries, successes = int(table.tries[place]), float(table.successes[place])
        low, high = wilson_interval(successes, tries)
        rows.append(
            {
                "prompt_id": str(table.prompt_id[place]),
                "groups": int(table.groups[place]),
                "tied": int(table.tied[place]),
                "tries": tries,
                "successes": successes,
                "rate": successes / tries if tries else None,
                "low": low,
                "high": high,
                "state": STATES[states[place]][0],
                "advice": STATES[states[place]][2],
                "duplicate_of": str(table.prompt_id[of]) if (of := originals[place]) >= 0 else None,
            }
        )
    return plain(rows)


def as_json(rows: list[dict[str, Any]]) -> str:
    """Return the rows as strict JSON."""
    return to_json({"schema": 1, "prompts": rows})


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the rows as CSV, JSONL or Parquet, by the suffix."""
    import polars as pl

    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--out takes a file ending in {', '.join(SUFFIXES)}; got {path.name!r}")
    path = target(path)
    schema = None if rows else {"prompt_id": pl.String}
    frame = pl.DataFrame(rows, schema, infer_schema_length=None)
    try:
        if path.suffix.lower() == ".csv":
            # a spreadsheet would run a cell that begins like a formula
            name = pl.col("prompt_id")
            formula = name.str.contains(r"^[=+\-@\t\r]")
            safe = pl.when(formula).then(pl.lit("'") + name).otherwise(name)
            frame.with_columns(prompt_id=safe).write_csv(path)
        elif path.suffix.lower() == ".jsonl":
            frame.write_ndjson(path)
        else:
            frame.write_parquet(path)
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror or fault}") from None


def render(rows: list[dict[str, Any]], console: Console) -> None:
    """Print how many prompts are in each state, and the rows that tie most often."""
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    counted = ", ".join(f"{number:,} {state}" for state, number in states.items())
    console.print(Text(f"{len(rows):,} prompts: {counted}" if rows else "no prompts are known"))
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("prompt", no_wrap=True)
    for heading in ("groups", "tied", "tries", "rate", "95 %"):
        table.add_column(heading, justify="right")
    table.add_column("state")
    table.add_column("advice")
    for row in rows[:SHOWN]:
        known = row["rate"] is not None
        table.add_row(
            Text(safe_name(row["prompt_id"])),
            f"{row['groups']:,}",
            f"{row['tied']:,}",
            f"{row['tries']:,}",
            f"{row['rate']:.2f}" if known else "–",
            f"{row['low']:.2f} to {row['high']:.2f}" if known else "–",
            row["state"],
            row["advice"],
        )
    console.print(table)
    console.print(Text(_NOTE, style="dim"))
    if len(rows) > SHOWN:
        left = len(rows) - SHOWN
        console.print(Text(f"and {left:,} more; --out FILE writes all of them", style="dim"))

"""How an evaluation looks: tables on a terminal, or JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress import __version__
from buttress.report.document import plain, to_json
from buttress.report.hostile import safe_name, safe_text
from buttress.train.evaluation.evaluate import Evaluated, Evaluation
from buttress.train.judging.verify import said

_SAID = 5


def as_json(found: Evaluation) -> str:
    """Return an evaluation as strict JSON; what is unknown is null."""
    models = [
        {
            "model": one.model,
            "measures": {name: e._asdict() for name, e in one.estimates(seed=found.seed).items()},
            "completions": one.completions,
            "truncated": one.truncated,
            "tokens": one.tokens,
            "unscored": sum(one.faults.values()),
            "faults": one.faults,
        }
        for one in found.models
    ]
    compared = {name: one._asdict() for name, one in found.differences().items()}
    document: dict[str, Any] = {
        "schema": 1,
        "version": __version__,
        "data": found.data,
        "problems": found.problems,
        "models": models,
        "difference": compared or None,
        "notes": list(found.notes),
    }
    return to_json(plain(document))


def render(found: Evaluation, console: Console) -> None:
    """Print each model's measures with intervals, and the paired differences."""
    console.print(Text(f"{safe_name(found.data)}: {found.problems:,} problems"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("measure")
    for one in found.models:
        table.add_column(Text(safe_name(one.model)), justify="right")
    if len(found.models) == 2:
        table.add_column("difference", justify="right")
        table.add_column("p", justify="right")
    estimates = [one.estimates(seed=found.seed) for one in found.models]
    differences = found.differences()
    for name in estimates[0]:
        cells = [_interval(*known[name][:3]) if name in known else "–" for known in estimates]
        if name in differences:
            apart = differences[name]
            cells += [_interval(*apart[:3], sign="+"), _p(apart.p_value)]
        table.add_row(name, *cells)
    console.print(table)
    for note in (*(_spent(one) for one in found.models), *found.notes[:_SAID]):
        console.print(Text(safe_text(note), style="dim"))


def _spent(one: Evaluated) -> str:
    length = one.tokens / one.completions if one.completions else 0.0
    parts = [f"{one.model}: {one.completions:,} completions of {length:,.0f} tokens on average"]
    if one.truncated:
        parts.append(f"{one.truncated / one.completions:.1%} cut off by the cap")
    if one.faults:
        parts.append(f"{sum(one.faults.values()):,} without a score: {said(one.faults)}")
    return "; ".join(parts)


def _interval(value: float, low: float, high: float, *, sign: str = "") -> str:
    if not isfinite(value):
        return "–"
    return f"{value:{sign}.1%} [{low:{sign}.1%}, {high:{sign}.1%}]"


def _p(value: float) -> str:
    return f"{value:.2g}" if isfinite(value) else "–"

"""What recorded groups would have become under each remedy: table and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.remedies.replay import Outcome
from buttress.report.document import plain, to_json

COLUMNS = {
    "acr_after": "ACR after",
    "effective_batch": "moved",
    "tied_share": "tied",
    "sign_changes": "sign",
    "phantom": "phantom",
    "extra_rollouts": "cost",
    "largest": "max |A|",
    "norm": "rms |A|",
}

LEGEND = (
    "moved: share of rollouts with an advantage. tied, phantom: share of the squared advantages in "
    "tied groups, and in groups that are equally correct. sign: share of rollouts of mixed groups "
    "with another sign than grpo's. cost: how many more (or fewer) rollouts it would have sampled. "
    "ACR after falls by definition where a remedy acts on tied groups or samples others; it does "
    "not say that the run would learn more."
)


def as_dict(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the outcomes as plain data, None where a number is unknown."""
    return plain({"schema": 1, "remedies": [asdict(outcome) for outcome in outcomes]})


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as strict JSON."""
    return to_json(as_dict(outcomes))


def render(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print one row per remedy, and below what could not be replayed and why."""
    played = [outcome for outcome in outcomes if not outcome.skipped]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("remedy", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for outcome in played:
        table.add_row(outcome.name, *numbers(outcome))
    if played:
        before = _number(played[0].acr_before)
        console.print(Text(f"ACR of the recorded rewards: {before}", style="bold"))
        console.print(table)
        console.print(Text(LEGEND, style="dim"))
    for outcome in played:
        if outcome.missing:
            lacking = ", ".join(outcome.missing)
            console.print(Text(f"{outcome.name}: played without {lacking}", style="dim"))
    for outcome in played:
        if outcome.how:
            console.print(Text(f"{outcome.name}: {outcome.how}", style="dim"))
    for outcome in outcomes:
        if outcome.skipped:
            console.print(Text(f"{outcome.name}: not replayed: {outcome.skipped}", style="dim"))


def numbers(outcome: Outcome) -> tuple[str, ...]:
    """Return the numbers of one remedy as a reader sees them, in the order of `COLUMNS`."""
    return tuple(
        extra(outcome) if name == "extra_rollouts" else _number(getattr(outcome, name))
        for name in COLUMNS
    )


def extra(outcome: Outcome) -> str:
    """Return how many rollouts more the method would have sampled, as a share of the recorded.

    Examples
    --------
    >>> [extra(Outcome("any", rollouts=ratio)) for ratio in (1.0, 1.667, 0.88, float("nan"))]
    ['0', '+67%', '−12%', '–']
    """
    share = outcome.rollouts - 1
    if not isfinite(share):
        return "–"
    sign = "+" if share > 0 else "−"
    return "0" if share == 0 else f"{sign}{abs(share):.0%}"


def _number(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "–"

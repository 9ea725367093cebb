"""The collapse rate at other group sizes, as a chart of the report."""

from __future__ import annotations

import numpy as np

from buttress.measures.group_sizes import GroupSizes, SizeRow
from buttress.report import phrases
from buttress.report.chart import Chart, Series, absent, known
from buttress.rules import Case
from buttress.rules.rollout_counts import rollout_counts


def group_sizes_chart(case: Case) -> Chart:
    """Return the expected collapse rate by group size, or why there is none."""
    key, title = "sizes", "Collapse rate at other group sizes"
    counted, why = rollout_counts(case)
    if counted is None:
        return absent(key, title, "lines", f"It cannot be told: {why}.")
    usual = case.groups.n_samples / max(len(case.steps.step), 1)
    return sizes_chart(GroupSizes.of(counted.table, budget=usual), counted.note)


def sizes_chart(found: GroupSizes, note: str = "") -> Chart:
    """Draw the rows of a plan."""
    rows = [row for row in found.rows if row.method is not None]
    key, title = "sizes", "Collapse rate at other group sizes"
    if not rows:
        return absent(key, title, "lines", "No prompt has two rollouts.")
    detail = tuple(f"{phrases.rate(row.acr.value)} ({acr_span(row)})" for row in rows)
    ends = (("95 % from", "low"), ("95 % to", "high"))
    floor = found.floor
    return Chart(
        key,
        title,
        "lines",
        tuple(f"{row.size}{'' if row.method == 'counts' else '*'}" for row in rows),
        (
            Series("ACR", "ink", known([row.acr.value for row in rows]), detail, line=True),
            *(
                Series(name, "muted", known([getattr(row.acr, end) for row in rows]), line=True)
                for name, end in ends
            ),
        ),
        x_name="group size",
        y_name="ACR",
        lead=(
            f"{phrases.percent(floor.value)} of the prompts ({phrases.span(floor.low, floor.high)})"
            " tie at every size."
            if np.isfinite(floor.value)
            else ""
        ),
        note=f"* beyond the rollouts at hand: a model's. {note[:1].upper()}{note[1:]}".strip(),
        share=True,
    )


def acr_span(row: SizeRow) -> str:
    """Return the interval of an expected rate in words."""
    if not np.isfinite(row.acr.value):
        return phrases.DASH
    return f"{phrases.percent(row.acr.low)} to {phrases.percent(row.acr.high)}"

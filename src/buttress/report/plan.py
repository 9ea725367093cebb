"""What other group sizes would bring: the plan of a run as data, as a table and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.errors import ButtressError
from buttress.measures.group_sizes import SIZES, GroupSizes, SizeRow
from buttress.report import phrases
from buttress.report.document import plain, to_json
from buttress.report.headline import read_from
from buttress.report.html import write_sheet
from buttress.report.sheet import Section, Sheet
from buttress.report.size_chart import acr_span, sizes_chart
from buttress.report.view import finding_view
from buttress.rules import Case, Finding, examine, thresholds
from buttress.rules.rollout_counts import RolloutCounts, rollout_counts

HEADER = ("G", "ACR", "95 %", "cost", "95 %", "prompts", "mixed", "effective")
LEGEND = (
    "ACR: expected share of tied groups. From the rollouts at hand it is unbiased; rows marked * "
    "are a model's (some prompts have success rate 0, some 1, the rates of the others are Beta). "
    "Cost: rollouts per mixed group. Prompts, mixed groups and the effective share of the rollouts "
    "(those in mixed groups) are those of one step of the budget."
)
_FLOOR_SAID = 0.01  # a floor below this is none to speak of


@dataclass(frozen=True)
class Plan:
    """The group sizes of one run.

    Attributes
    ----------
    counted
        The counts that it rests on.
    recorded
        ACR of the recorded groups, by the logged rewards.
    findings
        What the rule on the floor says of the run.
    """

    case: Case
    counted: RolloutCounts
    sizes: GroupSizes
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls, case: Case, sizes: Sequence[int] | None = None, budget: float | None = None
    ) -> Plan:
        """Plan a run; raises `ButtressError` with the reason where nothing can be planned."""
        counted, why = rollout_counts(case)
        if counted is None:
            raise ButtressError(f"nothing to plan: {why}")
        usual = case.groups.n_samples / max(len(case.steps.step), 1)
        found = GroupSizes.of(
            counted.table,
            budget=usual if budget is None else budget,
            sizes=sizes or SIZES,
            gain=thresholds.FLOOR_GAIN,
        )
        floor = examine(case, select=["group-size-floor"])
        return cls(case, counted, found, tuple(floor))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain data; None where a number is unknown."""
        tries = self.counted.table.sum(axis=1)
        tries, found = tries[tries > 0], self.sizes
        model = found.difficulty
        return plain(
            {
                "schema": 1,
                "paths": list(self.case.run.source.paths),
                "success": self.counted.by,
                "note": self.counted.note or None,
                "prompts": len(tries),
                "rollouts_per_prompt": float(np.median(tries)) if len(tries) else None,
                "recorded_acr": self.case.acr,
                "floor": found.floor.value,
                "floor_interval": [found.floor.low, found.floor.high],
                "never_solved": float(np.median(model.never)) if model else None,
                "always_solved": float(np.median(model.always)) if model else None,
                "budget": found.budget,
                "best": found.best,
                "sizes": list(map(_size, found.rows)),
                "findings": [
                    {
                        "rule": one.rule,
                        "severity": one.severity.label,
                        "message": one.message,
                        "evidence": dict(one.evidence),
                    }
                    for one in self.findings
                ],
            }
        )

    def to_json(self) -> str:
        """Return the plan as strict JSON."""
        return to_json(self.as_dict())

    @property
    def sentence(self) -> str:
        """What the plan comes to."""
        found = self.sizes
        said = []
        if found.best is not None:
            row = next(row for row in found.rows if row.size == found.best)
            said.append(
                f"For {found.budget:,.0f} rollouts per step take groups of {found.best}: "
                f"{phrases.percent(1 - row.acr.value)} of the groups are expected to be mixed, and "
                f"no larger group puts {phrases.percent(thresholds.FLOOR_GAIN)} more of the "
                "rollouts to use."
            )
        else:
            said.append("No group size of the list is expected to mix groups within the budget.")
        if found.floor.value >= _FLOOR_SAID:
            low, high = found.floor.low, found.floor.high
            said.append(
                f"About {phrases.percent(found.floor.value)} of the prompts (95 %: "
                f"{phrases.percent(low)} to {phrases.percent(high)}) tie at every size: no group "
                "size goes below that."
            )
        return " ".join(said)

    @property
    def basis(self) -> str:
        """What the plan rests on."""
        tries = self.counted.table.sum(axis=1)
        tries = tries[tries > 0]
        what = "prompts" if self.case.groups.has_prompts else "groups (the log names no prompts)"
        half = "" if len(self.case.steps.step) < 2 else " of the second half of the run"
        middle = phrases.number(float(np.median(tries))) if len(tries) else phrases.DASH
        return f"From {len(tries):,} {what}{half} with {middle} rollouts each (median)."

    @property
    def table(self) -> list[tuple[str, ...]]:
        """One row of words per size."""
        return [_words(row, best=row.size == self.sizes.best) for row in self.sizes.rows]


def to_html(plan: Plan, path: str) -> Path:
    """Write the plan as one HTML file and return its path."""
    sizes = Section(
        "sizes",
        "Other group sizes",
        tuple(filter(None, [plan.counted.note])),
        HEADER,
        tuple(plan.table),
        (sizes_chart(plan.sizes, plan.counted.note),),
        tuple(map(finding_view, plan.findings)),
        (plan.basis, LEGEND),
    )
    return write_sheet(Sheet(read_from(plan.case), "Plan", plan.sentence, (sizes,)), path)


def render(plan: Plan, console: Console) -> None:
    """Print the plan as a table."""
    console.print(Text(read_from(plan.case), "dim"))
    console.print(Text(plan.sentence, "bold"))
    if plan.counted.note:
        console.print(Text(plan.counted.note))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in HEADER:
        table.add_column(name, justify="right")
    for row in plan.table:
        table.add_row(*row)
    console.print(table)
    for finding in plan.findings:
        console.print(Text(f"{finding.severity.label}[{finding.code}] {finding.message}"))
    console.print(Text(f"{plan.basis} {LEGEND}", "dim"))


def _size(row: SizeRow) -> dict[str, Any]:
    value, low, high = row.cost
    return {
        "group_size": row.size,
        "acr": row.acr.value,
        "acr_interval": [row.acr.low, row.acr.high],
        "method": row.method,
        "rests_on_prompts": row.acr.prompts,
        "effective_batch": 1 - row.acr.value,
        "rollouts_per_mixed_group": value,
        "rollouts_per_mixed_group_interval": [low, high],
        "prompts_per_step": row.prompts,
        "mixed_groups_per_step": row.mixed,
        "effective_rollouts_per_step": row.effective,
    }


def _words(row: SizeRow, *, best: bool) -> tuple[str, ...]:
    mark = "* " if row.method == "model" else ""
    value, low, high = (phrases.number(one) for one in row.cost)
    told = np.isfinite(row.acr.value)
    return (
        f"{'> ' if best else ''}{row.size}",
        f"{mark}{phrases.percent(row.acr.value)}",
        acr_span(row),
        value,
        f"{low} to {high}" if told else phrases.DASH,
        f"{row.prompts:,}",
        f"{row.mixed:,.1f}" if told else phrases.DASH,
        phrases.percent(1 - row.acr.value),
    )

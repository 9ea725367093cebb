"""Two runs side by side: intervals, and a paired test where their steps pair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.measures.differences import Difference, paired_difference, rate_difference
from buttress.measures.statistics import ratio
from buttress.measures.steps import StepTable
from buttress.report.diagnosis import Diagnosis
from buttress.report.document import plain, to_json
from buttress.report.hostile import safe_text

# with fewer common steps than this, the runs are compared as wholes
ENOUGH_STEPS = 8
RATES = ("acr", "all_wrong", "all_correct")


class Row(NamedTuple):
    """One measure of both runs; NaN where unknown."""

    name: str
    first: float
    second: float
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """What differs between two diagnosed runs."""

    first: Diagnosis
    second: Diagnosis
    names: tuple[str, str]

    @cached_property
    def common(self) -> tuple[StepTable, StepTable] | None:
        """The steps that both runs have, None where they are too few to pair."""
        a, b = self.first.case.steps, self.second.case.steps
        _, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
        return (a.select(at_a), b.select(at_b)) if len(at_a) >= ENOUGH_STEPS else None

    @cached_property
    def rows(self) -> list[Row]:
        """ACR, its kinds and the mean reward, with the differences.

        Over the common steps where the runs pair, so that a longer run is not compared with a
        shorter one; else over the whole runs.
        """
        undefined = self.first.case.undefined or self.second.case.undefined
        tables = self.common or (self.first.case.steps, self.second.case.steps)
        rows = []
        for name in RATES:
            if undefined:
                rows.append(Row(name, np.nan, np.nan, Difference(np.nan, np.nan, np.nan)))
                continue
            counts = [_counts(table, name) for table in tables]
            series = [_rate(table, name) for table in tables]
            unpaired = rate_difference(counts[0], counts[1])
            difference = paired_difference(*series) if self.common else unpaired
            rows.append(Row(name, ratio(*counts[0]), ratio(*counts[1]), difference))
        means = [table.reward_mean for table in tables]
        first, second = _mean(means[0]), _mean(means[1])
        unpaired = Difference(second - first, np.nan, np.nan)
        difference = paired_difference(*means) if self.common else unpaired
        rows.append(Row("reward_mean", first, second, difference))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        runs = zip(self.names, (self.first, self.second), strict=True)
        return plain(
            {
                "schema": 1,
                "runs": [
                    {"name": name, "verdict": one.verdict, "measures": one.measures}
                    for name, one in runs
                ],
                "rows": [
                    {
                        "name": row.name,
                        "first": row.first,
                        "second": row.second,
                        "difference": row.difference.value,
                        "interval": [row.difference.low, row.difference.high],
                        "p_value": row.difference.p_value,
                        "paired_steps": row.difference.paired,
                    }
                    for row in self.rows
                ],
            }
        )

    def to_json(self) -> str:
        """Return the comparison as strict JSON."""
        return to_json(self.as_dict())

    def render(self, console: Console) -> None:
        """Print the comparison as a table."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("")
        for name in self.names:
            table.add_column(Text(safe_text(name)), justify="right")
        table.add_column("difference (95 %)", justify="right")
        table.add_column("p", justify="right")
        for row in self.rows:
            table.add_row(row.name, *map(_number, row[1:3]), *_difference(row.difference))
        verdicts = (one.verdict for one in (self.first, self.second))
        table.add_row("verdict", *map(Text, verdicts), "", "")
        console.print(table)
        console.print(Text(self._how(), "dim"))

    def _how(self) -> str:
        lengths = [len(one.case.steps.step) for one in (self.first, self.second)]
        seeds = "one run each, so nothing here speaks of other seeds"
        if self.common is None:
            return f"not paired: fewer than {ENOUGH_STEPS} common steps; {seeds}"
        n = len(self.common[0].step)
        part = f" (of {lengths[0]} and {lengths[1]})" if max(lengths) > n else ""
        return f"all numbers over the {n} common steps{part}, paired by step; {seeds}"


def _counts(table: StepTable, name: str) -> tuple[int, int]:
    return int(_hits(table, name).sum()), int(table.eligible.sum())


def _rate(table: StepTable, name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return _hits(table, name) / table.eligible


def _hits(table: StepTable, name: str) -> np.ndarray:
    return table.eligible - table.mixed if name == "acr" else getattr(table, name)


def _mean(rewards: np.ndarray) -> float:
    return float(np.nanmean(rewards)) if np.isfinite(rewards).any() else float(np.nan)


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _difference(difference: Difference) -> tuple[str, str]:
    if not np.isfinite(difference.value):
        return "–", "–"
    bounds = f" [{difference.low:+.3f}, {difference.high:+.3f}]"
    interval = bounds if np.isfinite(difference.low) else ""
    p = f"{difference.p_value:.2g}" if np.isfinite(difference.p_value) else "–"
    return f"{difference.value:+.3f}{interval}", p

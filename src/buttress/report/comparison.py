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
from buttress.report.diagnosis import Diagnosis
from buttress.report.document import plain, to_json
from buttress.report.hostile import safe_text

# with fewer common steps than this, the runs are compared as wholes
ENOUGH_STEPS = 8


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
    def rows(self) -> list[Row]:
        """ACR, its kinds and the mean reward of both runs, with the differences."""
        a, b = self.first.case, self.second.case
        defined = not (a.undefined or b.undefined)
        rows = []
        for name in ("acr", "all_wrong", "all_correct"):
            counts = [_counts(case, name) for case in (a, b)]
            if not defined:
                rows.append(Row(name, np.nan, np.nan, Difference(np.nan, np.nan, np.nan)))
                continue
            first, second = (ratio(*pair) for pair in counts)
            difference = self._by_step(name) or rate_difference(counts[0], counts[1])
            rows.append(Row(name, first, second, difference))
        first, second = _mean(a.groups.rewards), _mean(b.groups.rewards)
        unpaired = Difference(second - first, np.nan, np.nan)
        rows.append(Row("reward_mean", first, second, self._by_step("reward_mean") or unpaired))
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
        paired = max(row.difference.paired for row in self.rows)
        how = f"paired over {paired} common steps" if paired else "not paired: no common steps"
        console.print(Text(f"{how}; one run each, so nothing here speaks of other seeds", "dim"))

    def _by_step(self, name: str) -> Difference | None:
        a, b = self.first.case.steps, self.second.case.steps
        _, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
        if len(at_a) < ENOUGH_STEPS:
            return None
        return paired_difference(_series(a, name)[at_a], _series(b, name)[at_b])


def _series(steps: Any, name: str) -> np.ndarray:
    if name in ("acr", "reward_mean"):
        return getattr(steps, name)
    with np.errstate(invalid="ignore"):
        return getattr(steps, name) / steps.eligible


def _counts(case: Any, name: str) -> tuple[int, int]:
    hits = case.counts.tied if name == "acr" else getattr(case.counts, name)
    return hits, case.collapse.eligible


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

"""Two runs or two sets of runs side by side: intervals, and paired tests where they pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from buttress.measures.differences import (
    Difference,
    paired_difference,
    paired_runs,
    rate_difference,
    run_difference,
)
from buttress.measures.statistics import ratio
from buttress.measures.steps import StepTable
from buttress.report.document import plain, to_json
from buttress.report.hostile import safe_text
from buttress.report.over_steps import acr_chart
from buttress.report.runs import NamedDiagnosis
from buttress.report.sheet import Section, Sheet

# with fewer common steps than this, the runs are compared as wholes
ENOUGH_STEPS = 8
RATES = ("acr", "all_wrong", "all_correct")


class Row(NamedTuple):
    """One measure of both sides; NaN where unknown."""

    name: str
    first: float
    second: float
    difference: Difference


class RunSet(NamedTuple):
    """One side of a comparison: a run, or several that differ by their seed."""

    name: str
    runs: tuple[NamedDiagnosis, ...]

    @property
    def seeds(self) -> list[int] | None:
        """The seeds of the runs, None unless each has one of its own."""
        seeds = [run.seed for run in self.runs if run.seed is not None]
        return seeds if len(set(seeds)) == len(self.runs) else None


@dataclass(frozen=True)
class Comparison:
    """What differs between two diagnosed runs, or between two sets of them."""

    first: RunSet
    second: RunSet

    @property
    def sides(self) -> tuple[RunSet, RunSet]:
        """Both sides."""
        return self.first, self.second

    @property
    def single(self) -> bool:
        """Whether there is one run on either side."""
        return all(len(side.runs) == 1 for side in self.sides)

    @cached_property
    def steps(self) -> np.ndarray | None:
        """The steps that all runs have, None where they are too few to compare over."""
        tables = [run.diagnosis.case.steps.step for side in self.sides for run in side.runs]
        common = tables[0]
        for one in tables[1:]:
            common = np.intersect1d(common, one)
        return common if len(common) >= ENOUGH_STEPS else None

    @cached_property
    def seeds(self) -> list[int] | None:
        """The seeds by which the sets pair, None where they do not."""
        if self.single or self.first.seeds is None or self.second.seeds is None:
            return None
        common = sorted(set(self.first.seeds) & set(self.second.seeds))
        return common if len(common) >= 2 else None

    @property
    def paired_by(self) -> Literal["step", "seed"] | None:
        """How the sides pair."""
        if self.single:
            return "step" if self.steps is not None else None
        return "seed" if self.seeds else None

    @cached_property
    def rows(self) -> list[Row]:
        """ACR, its kinds and the mean reward, with the differences.

        Over the common steps, so that a longer run is not compared with a shorter one; where they
        are too few, over the whole runs. Of sets each run gives one number.
        """
        tables = [[self._table(run) for run in side.runs] for side in self.sides]
        undefined = any(run.diagnosis.case.undefined for side in self.sides for run in side.runs)
        row = self._single if self.single else self._sets
        rows = []
        for name in (*RATES, "reward_mean"):
            if undefined and name in RATES:
                rows.append(Row(name, np.nan, np.nan, Difference(np.nan, np.nan, np.nan)))
            else:
                rows.append(row(name, tables))
        return rows

    def _table(self, run: NamedDiagnosis) -> StepTable:
        table = run.diagnosis.case.steps
        if self.steps is None:
            return table
        return table.select(np.flatnonzero(np.isin(table.step, self.steps)))

    def _single(self, name: str, tables: Sequence[Sequence[StepTable]]) -> Row:
        (one,), (two,) = tables
        if self.steps is not None:
            difference = paired_difference(_series(one, name), _series(two, name))
        elif name in RATES:
            difference = rate_difference(_counts(one, name), _counts(two, name))
        else:
            difference = Difference(_value(two, name) - _value(one, name), np.nan, np.nan)
        return Row(name, _value(one, name), _value(two, name), difference)

    def _sets(self, name: str, tables: Sequence[Sequence[StepTable]]) -> Row:
        values = [np.array([_value(table, name) for table in side]) for side in tables]
        if self.seeds:
            places = [
                [[run.seed for run in side.runs].index(seed) for seed in self.seeds]
                for side in self.sides
            ]
            values = [one[place] for one, place in zip(values, places, strict=True)]
            difference = paired_runs(*values)
        else:
            difference = run_difference(*values)
        return Row(name, _mean(values[0]), _mean(values[1]), difference)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        steps = 0 if self.steps is None else len(self.steps)
        return plain(
            {
                "schema": 1,
                "runs": [
                    {
                        "name": run.name,
                        "set": side.name,
                        "seed": run.seed,
                        "verdict": run.diagnosis.verdict,
                        "measures": run.diagnosis.measures,
                    }
                    for side in self.sides
                    for run in side.runs
                ],
                "paired_by": self.paired_by,
                "seeds": self.seeds,
                "common_steps": steps,
                "rows": [
                    {
                        "name": row.name,
                        "first": row.first,
                        "second": row.second,
                        "difference": row.difference.value,
                        "interval": [row.difference.low, row.difference.high],
                        "p_value": row.difference.p_value,
                        "paired_steps": row.difference.paired if self.single else 0,
                        "paired_runs": 0 if self.single else row.difference.paired,
                    }
                    for row in self.rows
                ],
            }
        )

    def to_json(self) -> str:
        """Return the comparison as strict JSON."""
        return to_json(self.as_dict())

    @property
    def header(self) -> tuple[str, ...]:
        """Heading of the table."""
        names = _apart(*(side.name for side in self.sides))
        return ("", *map(safe_text, names), "difference (95 %)", "p")

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The rows in words."""
        told = [
            (row.name, *map(_number, row[1:3]), *_difference(row.difference)) for row in self.rows
        ]
        return [*told, ("verdict", *map(_verdicts, self.sides), "", "")]

    @property
    def how(self) -> str:
        """How the sides were compared, and what that leaves open."""
        n = None if self.steps is None else len(self.steps)
        if self.single:
            seeds = "one run each, so nothing here speaks of other seeds"
            if n is None:
                return f"not paired: fewer than {ENOUGH_STEPS} common steps; {seeds}"
            lengths = [len(side.runs[0].diagnosis.case.steps.step) for side in self.sides]
            part = f" (of {lengths[0]} and {lengths[1]})" if max(lengths) > n else ""
            return f"all numbers over the {n} common steps{part}, paired by step; {seeds}"
        over = f"the {n} steps that all runs have" if n else "each run as a whole"
        sizes = " and ".join(str(len(side.runs)) for side in self.sides)
        if self.seeds:
            seeds = ", ".join(map(str, self.seeds))
            return f"one number per run over {over}; paired by seed ({seeds})"
        if min(len(side.runs) for side in self.sides) < 2:
            return f"one number per run over {over}; one run on a side has no spread: no interval"
        return f"one number per run over {over}; {sizes} runs, not paired by seed (Welch's test)"

    def render(self, console: Console) -> None:
        """Print the comparison as a table."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(self.header):
            side = place in (1, 2)
            justify = "right" if place else "left"
            table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=not side)
        for row in self.table:
            table.add_row(*map(Text, row))
        console.print(table)
        console.print(Text(self.how, "dim"))

    def sheet(self) -> Sheet:
        """Return the comparison as a page."""
        runs = [(run.name, run.diagnosis.case) for side in self.sides for run in side.runs]
        acr = self.rows[0].difference
        known = np.isfinite(acr.value)
        said = (
            f"The collapse rate of the second is {abs(acr.value):.2f} "
            f"{'higher' if acr.value > 0 else 'lower'}{_bounds(acr)}."
            if known
            else "The collapse rates cannot be compared."
        )
        names = " and ".join(safe_text(side.name) for side in self.sides)
        section = Section(
            "comparison",
            "Side by side",
            header=self.header,
            rows=tuple(self.table),
            charts=(acr_chart(runs),),
            notes=(f"{self.how[:1].upper()}{self.how[1:]}.",),
        )
        return Sheet(names, "Comparison", said, (section,))


def _apart(first: str, second: str) -> tuple[str, str]:
    """Return two names without the folders that they share."""
    one, two = first.split("/"), second.split("/")
    while len(one) > 1 and len(two) > 1 and one[0] == two[0] and "," not in first + second:
        one, two = one[1:], two[1:]
    return "/".join(one), "/".join(two)


def _hits(table: StepTable, name: str) -> np.ndarray:
    return table.eligible - table.mixed if name == "acr" else getattr(table, name)


def _counts(table: StepTable, name: str) -> tuple[int, int]:
    return int(_hits(table, name).sum()), int(table.eligible.sum())


def _series(table: StepTable, name: str) -> np.ndarray:
    if name not in RATES:
        return table.reward_mean
    with np.errstate(invalid="ignore"):
        return _hits(table, name) / table.eligible


def _value(table: StepTable, name: str) -> float:
    return ratio(*_counts(table, name)) if name in RATES else _mean(table.reward_mean)


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float(np.nan)


def _verdicts(side: RunSet) -> str:
    verdicts = [run.diagnosis.verdict for run in side.runs]
    if len(verdicts) == 1:
        return verdicts[0]
    return ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _bounds(difference: Difference) -> str:
    if not np.isfinite(difference.low):
        return ""
    return f" [{difference.low:+.3f}, {difference.high:+.3f}]"


def _difference(difference: Difference) -> tuple[str, str]:
    if not np.isfinite(difference.value):
        return "–", "–"
    p = f"{difference.p_value:.2g}" if np.isfinite(difference.p_value) else "–"
    return f"{difference.value:+.3f}{_bounds(difference)}", p

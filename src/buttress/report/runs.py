"""Several runs at once: one verdict for each, the worst for all, and the line that they teach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from buttress import __version__
from buttress.groups import Problem
from buttress.measures.forecast import OwnLine, learn_line
from buttress.report import phrases
from buttress.report.diagnosis import Diagnosis
from buttress.report.document import SCHEMA, plain, to_json
from buttress.report.hostile import safe_text
from buttress.report.over_steps import acr_chart
from buttress.report.sheet import Section, Sheet
from buttress.report.view import VERDICTS, finding_view, finding_views
from buttress.rules import Case, Verdict, examine, thresholds
from buttress.rules.forecast import early_acr

ORDER: tuple[Verdict, ...] = ("healthy", "undefined", "attention", "collapsed")
FINISHED = 0.9  # ours: of the steps of the longest run
HEADER = ("run", "verdict", "ACR", "95 %", "rollouts", "steps", "worst finding")


class NamedCase(NamedTuple):
    """One of several runs."""

    name: str
    case: Case
    seed: int | None = None


class NamedDiagnosis(NamedTuple):
    """One of several diagnosed runs."""

    name: str
    diagnosis: Diagnosis
    seed: int | None = None


@dataclass(frozen=True)
class Runs:
    """Several diagnosed runs.

    Attributes
    ----------
    line
        Early collapse rate against how the finished runs ended; None where they are too few.
    """

    each: tuple[NamedDiagnosis, ...]
    line: OwnLine | None = None

    @classmethod
    def of(
        cls, cases: Sequence[NamedCase], *, select: Iterable[str] = (), ignore: Iterable[str] = ()
    ) -> Runs:
        """Diagnose each run; those that are not finished are held against those that are."""
        select, ignore = list(select), list(ignore)
        line, finished = own_line([one.case for one in cases])
        each = []
        for one, done in zip(cases, finished, strict=True):
            case = one.case if done or line is None else replace(one.case, line=line)
            found = tuple(examine(case, select=select, ignore=ignore))
            each.append(NamedDiagnosis(one.name, Diagnosis(case, found), one.seed))
        return cls(tuple(each), line)

    @cached_property
    def verdict(self) -> Verdict:
        """The worst verdict."""
        return max((one.diagnosis.verdict for one in self.each), key=ORDER.index)

    @property
    def severity(self) -> int:
        """The worst severity of any finding, 0 without one."""
        found = (finding for one in self.each for finding in one.diagnosis.findings)
        return max((int(finding.severity) for finding in found), default=0)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read of any run."""
        return tuple(problem for one in self.each for problem in one.diagnosis.problems)

    @property
    def sentence(self) -> str:
        """How many runs have which verdict."""
        verdicts = [one.diagnosis.verdict for one in self.each]
        counted = (
            f"{verdicts.count(name)} {VERDICTS[name].lower()}"
            for name in reversed(ORDER)
            if name in verdicts
        )
        return f"{len(self.each)} runs: {', '.join(counted)}."

    def as_dict(self) -> dict[str, Any]:
        """Return the report under the keys of one run, with the runs under ``runs``.

        Numbers over different runs mean nothing and are null; the verdict is the worst one.
        """
        reports = [one.diagnosis.as_dict() for one in self.each]
        sources = [report["source"] for report in reports]
        undefined = "several runs were given: each has its own under `runs`"
        nothing = dict.fromkeys(reports[0]["measures"])
        line = self.line
        return plain(
            {
                "schema": SCHEMA,
                "version": __version__,
                "source": {
                    "paths": [path for source in sources for path in source["paths"]],
                    "format": ", ".join(sorted({source["format"] for source in sources})),
                    **{
                        name: sum(source[name] for source in sources)
                        for name in ("rollouts", "groups", "steps")
                    },
                    "group_sizes": _added([source["group_sizes"] for source in sources]),
                    "inferred": [],
                },
                "tolerance": reports[0]["tolerance"],
                "verdict": self.verdict,
                "measures": {**nothing, "acr_undefined": undefined},
                "steps": [],
                "findings": [],
                "problems": [problem._asdict() for problem in self.problems],
                "runs": [
                    {"name": one.name, "seed": one.seed, "foretold": _foretold(one), **report}
                    for one, report in zip(self.each, reports, strict=True)
                ],
                "line": line
                and {
                    "intercept": line.intercept,
                    "slope": line.slope,
                    "correlation": line.correlation,
                    "runs": line.runs,
                },
            }
        )

    def to_json(self) -> str:
        """Return the report as strict JSON."""
        return to_json(self.as_dict())

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """One row of words per run."""
        return [_row(one) for one in self.each]

    def sheet(self) -> Sheet:
        """Return the runs as a page."""
        overview = Section(
            "runs",
            "Runs",
            header=HEADER,
            rows=tuple(self.rows),
            charts=(acr_chart([(one.name, one.diagnosis.case) for one in self.each]),),
            notes=(line_said(self.line),) if self.line else (),
        )
        each = (
            Section(
                f"run-{place}",
                safe_text(one.name),
                (VERDICTS[one.diagnosis.verdict],),
                findings=finding_views(one.diagnosis.findings),
            )
            for place, one in enumerate(self.each, start=1)
        )
        title = VERDICTS[self.verdict]
        name = f"{len(self.each)} runs"
        return Sheet(name, title, self.sentence, (overview, *each), verdict=self.verdict)


def own_line(cases: Sequence[Case]) -> tuple[OwnLine | None, list[bool]]:
    """Return the line through the finished runs, and which are finished."""
    lengths = [int(np.ptp(case.steps.step)) if len(case.steps.step) else 0 for case in cases]
    finished = [length >= FINISHED * max(lengths, default=0) for length in lengths]
    done = [case for case, one in zip(cases, finished, strict=True) if one and not case.undefined]
    early = [early_acr(case.steps) for case in done]
    return learn_line(early, [_ended(case) for case in done]), finished


def _ended(case: Case) -> float:
    """Return the mean success of the last tenth of the steps."""
    steps = case.steps.step
    late = case.groups.step >= steps[-max(1, len(steps) // 10)]
    values = case.success[late[case.groups.group_of]]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float(np.nan)


def render(runs: Runs, console: Console) -> None:
    """Print the runs as a table, and below what was found in each."""
    console.print(Text(runs.sentence, "bold"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(HEADER):
        justify = "left" if place in (0, 1, 6) else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place > 0)
    for row in runs.rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for one in runs.each:
        if not one.diagnosis.findings:
            continue
        console.print()
        console.print(Text(safe_text(one.name), "bold"))
        for finding in one.diagnosis.findings:
            said = finding_view(finding)
            line = Text(f"{said.severity}[{said.code}] {said.rule}: {said.message}")
            console.print(Padding(line, (0, 0, 0, 2)))
    if runs.line:
        console.print()
        console.print(Text(line_said(runs.line), "dim"))
    if runs.problems:
        total = phrases.count(len(runs.problems), "problem")
        console.print(Text(f"{total} while reading; --json lists all", "bold yellow"))
    console.print(Text("Diagnose one of them for its evidence and what to do.", "dim"))


def line_said(line: OwnLine) -> str:
    """Return the line of the user's own runs in words."""
    return (
        f"Over your own {line.runs} finished runs the success at the end is {line.intercept:.2f} "
        f"{line.slope:+.2f} times the ACR of the first {thresholds.EARLY_STEPS} steps "
        f"(r = {line.correlation:.2f}). It speaks of runs like these and of no others."
    )


def _foretold(one: NamedDiagnosis) -> dict[str, Any] | None:
    """Return how a run that is not finished will end, by the line of those that are."""
    case = one.diagnosis.case
    if case.line is None or case.undefined:
        return None
    value, low, high = case.line.predict(early_acr(case.steps))
    return {"success_at_end": value, "interval": [low, high], "runs": case.line.runs}


def _row(one: NamedDiagnosis) -> tuple[str, ...]:
    found, measures = one.diagnosis, one.diagnosis.measures
    return (
        safe_text(one.name),
        VERDICTS[found.verdict].lower(),
        phrases.rate(measures["acr"]),
        phrases.span(*(measures["acr_interval"] or (None, None))),
        f"{found.case.groups.n_samples:,}",
        f"{len(found.case.steps.step):,}",
        found.findings[0].rule if found.findings else "none",
    )


def _added(sizes: Sequence[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in sizes:
        for size, number in one.items():
            total[size] = total.get(size, 0) + number
    return total


def write_html(runs: Runs, path: str) -> Path:
    """Write the runs as one HTML file and return its path."""
    from buttress.report.html import write_sheet

    return write_sheet(runs.sheet(), path)

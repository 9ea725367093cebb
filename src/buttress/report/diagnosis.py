"""A run, its measures, its findings and the verdict: what every form of the report shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from buttress.groups import Groups, Problem, Run, Tolerance
from buttress.measures import signal
from buttress.report import document
from buttress.report.files import write_text
from buttress.rules import Case, Finding, Verdict, examine, verdict


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    Attributes
    ----------
    case
        The run and what was measured on it.
    findings
        Causes before consequences, the worst first.
    """

    case: Case
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        found = ", ".join(f"{one.severity}[{one.code}] {one.rule}" for one in self.findings)
        return f"Diagnosis({self.verdict}, {self.run.groups!r}: {found or 'nothing found'})"

    @property
    def run(self) -> Run:
        """The run that was diagnosed."""
        return self.case.run

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What could not be read."""
        return self.run.problems

    @cached_property
    def verdict(self) -> Verdict:
        """``healthy``, ``attention``, ``collapsed`` or ``undefined``."""
        return verdict(self.case, self.findings)

    @cached_property
    def measures(self) -> dict[str, Any]:
        """The numbers, under the names of the JSON report; None where unknown."""
        return document.measures(self.case, signal(self.case.groups, self.case.tolerance))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, ready for JSON."""
        return document.document(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the report as JSON text; write it to a file as well when a path is given."""
        text = document.to_json(self.as_dict())
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained HTML file and return its path."""
        from buttress.report import html

        return html.write(self, Path(path))


def diagnose(
    run: Run | Groups | Any,
    *,
    tolerance: Tolerance | float | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
) -> Diagnosis:
    """Say whether a run learns from what it samples, and if not, why.

    Parameters
    ----------
    run
        A `Run` from `read`, `Groups`, or anything that `read` takes (path, paths, frame).
    tolerance
        A `Tolerance`, or a number that sets both ``atol`` and ``rtol``.
    select, ignore
        Rule names, codes or code prefixes.

    Examples
    --------
    >>> diagnose(Groups.from_nested([[0, 0, 0, 0], [1, 1, 1, 1]])).verdict
    'collapsed'
    """
    if isinstance(run, Groups):
        run = Run(run)
    elif not isinstance(run, Run):
        from buttress.logs import read  # the readers cost a table engine

        run = read(run)
    case = Case(run, Tolerance.of(tolerance))
    return Diagnosis(case, tuple(examine(case, select=select, ignore=ignore)))

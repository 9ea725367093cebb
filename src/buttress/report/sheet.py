"""A page of tables and charts beside the report of one run: plans, comparisons, sets of runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from buttress import __version__
from buttress.report.chart import Chart
from buttress.report.view import FindingView


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a sheet; all text is safe to show once the medium has escaped it."""

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    charts: tuple[Chart, ...] = ()
    findings: tuple[FindingView, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page of sections under one sentence.

    Attributes
    ----------
    verdict
        Decides on the mark beside the title: a verdict of a run, or ``info``.
    """

    name: str
    title: str
    sentence: str
    sections: tuple[Section, ...]
    verdict: str = "info"
    version: str = field(default=__version__)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in order."""
        return tuple(chart for section in self.sections for chart in section.charts)

"""The view model: everything that a report says, in words. Terminal and HTML only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from buttress import __version__
from buttress.groups import Problem
from buttress.report import distributions, headline, over_steps, phrases, replay_panel, size_chart
from buttress.report.chart import Chart
from buttress.report.headline import Number, Part
from buttress.report.hostile import clip, safe_text
from buttress.report.samples import SampleGroup, sample_groups
from buttress.rules import Finding

if TYPE_CHECKING:
    from buttress.report.diagnosis import Diagnosis

PROBLEMS = 50
TEXT_CHARACTERS = 2000

VERDICTS = {
    "healthy": "Healthy",
    "attention": "Needs attention",
    "collapsed": "Collapsed",
    "undefined": "Cannot be measured",
}


class AdviceView(NamedTuple):
    """One thing to do."""

    action: str
    why: str
    cost: str


class FindingView(NamedTuple):
    """One finding in words; `see` names the finding that says the rest of what to do."""

    severity: str
    code: str
    rule: str
    steps: str
    message: str
    evidence: tuple[tuple[str, str], ...]
    advice: tuple[AdviceView, ...]
    see: str = ""


class ProblemView(NamedTuple):
    """Something that could not be read."""

    place: str
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """A report ready to be laid out; all text is safe to show once the medium has escaped it.

    Attributes
    ----------
    headline
        The verdict in a word or two.
    sentence
        The verdict in a sentence.
    parts
        Groups by kind, the mixed ones first.
    facts
        What was read, how, and under which tolerance.
    """

    version: str
    name: str
    verdict: str
    headline: str
    sentence: str
    numbers: tuple[Number, ...]
    parts: tuple[Part, ...]
    facts: tuple[tuple[str, str], ...]
    findings: tuple[FindingView, ...]
    charts: tuple[Chart, ...]
    samples: tuple[SampleGroup, ...]
    problems: tuple[ProblemView, ...]
    problems_left_out: int

    @classmethod
    def of(cls, diagnosis: Diagnosis, *, replayed: bool = False, brief: bool = False) -> View:
        """Put a diagnosis into words.

        On demand with a chart of other remedies (seconds), or `brief`, with what a terminal shows:
        the chart of the collapse rate alone, and no rollouts.
        """
        case = diagnosis.case
        problems = diagnosis.problems
        return cls(
            version=__version__,
            name=headline.read_from(case),
            verdict=diagnosis.verdict,
            headline=VERDICTS[diagnosis.verdict],
            sentence=headline.sentence(case, diagnosis.measures, diagnosis.findings),
            numbers=tuple(headline.numbers(case, diagnosis.measures)),
            parts=headline.parts(case),
            facts=tuple(headline.facts(case)),
            findings=finding_views(diagnosis.findings),
            charts=(over_steps.collapse_chart(case),)
            if brief
            else (
                over_steps.collapse_chart(case),
                distributions.success_chart(case),
                distributions.prompts_chart(case),
                size_chart.group_sizes_chart(case),
                distributions.components_chart(case),
                over_steps.means_chart(case),
                distributions.advantages_chart(case),
                *([replay_panel.replay_chart(case)] if replayed else []),
            ),
            samples=() if brief else sample_groups(case),
            problems=tuple(map(_problem, problems[:PROBLEMS])),
            problems_left_out=max(0, len(problems) - PROBLEMS),
        )

    def chart(self, key: str) -> Chart:
        """Return the chart of that key."""
        return next(chart for chart in self.charts if chart.key == key)


def finding_view(finding: Finding) -> FindingView:
    """Put a finding into words."""
    return FindingView(
        severity=finding.severity.label,
        code=finding.code,
        rule=finding.rule,
        steps=phrases.steps(finding.steps),
        message=_short(finding.message),
        evidence=tuple(
            (phrases.label(name), _short(phrases.evidence(name, value)))
            for name, value in finding.evidence.items()
        ),
        advice=tuple(AdviceView(*map(_short, one)) for one in finding.advice),
    )


def finding_views(findings: Iterable[Finding]) -> tuple[FindingView, ...]:
    """Put findings into words, each advice once: where it comes up first."""
    said: dict[str, str] = {}
    views = []
    for view in map(finding_view, findings):
        fresh = tuple(one for one in view.advice if one.action not in said)
        codes = dict.fromkeys(said[one.action] for one in view.advice if one.action in said)
        also = "and " if fresh else ""
        see = f"{also}as under {', '.join(codes)} above" if codes else ""
        views.append(view._replace(advice=fresh, see=see))
        said |= {one.action: view.code for one in fresh}
    return tuple(views)


def _problem(problem: Problem) -> ProblemView:
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    return ProblemView(_short(place), _short(problem.message))


def _short(text: str) -> str:
    return safe_text(clip(text, TEXT_CHARACTERS))


def severities(findings: Sequence[FindingView]) -> str:
    """Return how many findings there are of each severity, in words.

    Examples
    --------
    >>> severities(())
    'nothing found'
    """
    names = [finding.severity for finding in findings]
    counted = [
        phrases.count(names.count(name), one)
        for name, one in (("error", "error"), ("warning", "warning"), ("info", "note"))
        if name in names
    ]
    return ", ".join(counted) or "nothing found"

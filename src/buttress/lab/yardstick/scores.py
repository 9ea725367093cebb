"""How well a tool named the causes: precision and recall per cause, macro-F1, false alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from buttress.lab.yardstick.corpus import Recipe


class Heard(NamedTuple):
    """One thing that a tool said.

    Attributes
    ----------
    causes
        The rules that it can mean, the likeliest first; empty where no rule says the like.
    alarm
        Whether it is above `info`. What is not counts where it is right, and never where it is
        wrong.
    """

    said: str
    causes: tuple[str, ...]
    alarm: bool = True


class Answer(NamedTuple):
    """What a tool said of one run."""

    recipe: Recipe
    heard: tuple[Heard, ...]

    @property
    def false_alarms(self) -> int:
        """How much was said of a healthy run that is not true of it."""
        if not self.recipe.kind.healthy:
            return 0
        true = self.recipe.accepted
        return sum(one.alarm and not true.intersection(one.causes) for one in self.heard)

    @property
    def named(self) -> set[str]:
        """The causes that the tool is taken to have named.

        What can mean a true cause means that; what can mean something that is true besides counts
        neither way; everything else is the likeliest of what it can mean, and wrong.
        """
        true, besides = set(self.recipe.kind.labels), self.recipe.accepted
        found: set[str] = set()
        for one in self.heard:
            hits = true.intersection(one.causes)
            wrong = one.alarm and not hits and not besides.intersection(one.causes)
            found |= set(one.causes[:1]) if wrong else hits
        return found


@dataclass(frozen=True)
class Score:
    """The counts of one cause; `runs` have it as a label."""

    hits: int
    wrong: int
    runs: int

    @property
    def precision(self) -> float | None:
        """Share of the runs for which the cause was named that have it; None if it never was."""
        named = self.hits + self.wrong
        return self.hits / named if named else None

    @property
    def recall(self) -> float:
        """Share of the runs with the cause for which it was named."""
        return self.hits / self.runs

    @property
    def f1(self) -> float:
        """Harmonic mean of both, 0 where the cause was never rightly named."""
        return 2 * self.hits / (self.hits + self.wrong + self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "runs": self.runs,
        }


def score(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return ``macro_f1``, ``false_alarms`` and ``per_cause``, ready for JSON.

    Macro-F1 is the plain mean over the causes that label a run of the corpus. False alarms are
    what was said above `info` of healthy runs, unless it is true of them.
    """
    runs = Counter(label for one in answers for label in one.recipe.kind.labels)
    hits: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for one in answers:
        labels = set(one.recipe.kind.labels)
        hits.update(one.named & labels)
        wrong.update(one.named - labels)
    found = {name: Score(hits[name], wrong[name], runs[name]) for name in sorted(runs)}
    return {
        "macro_f1": _mean(one.f1 for one in found.values()),
        "false_alarms": sum(one.false_alarms for one in answers),
        "per_cause": {name: one.as_dict() for name, one in found.items()},
    }


def spurious(answers: Sequence[Answer]) -> dict[str, int]:
    """Return how often rules that label no run of the corpus were wrongly named."""
    labels = {label for one in answers for label in one.recipe.kind.labels}
    return dict(Counter(name for one in answers for name in sorted(one.named - labels)))


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0

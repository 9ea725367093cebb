"""Make the corpus, ask every tool, count."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.lab.yardstick.corpus import Half, make, recipes
from buttress.lab.yardstick.formats import write
from buttress.lab.yardstick.scores import Answer, Heard, score, spurious
from buttress.lab.yardstick.tools import BUTTRESS, NAMES, Tool, check, find

HALVES: tuple[Half, ...] = ("development", "held out")
RUNS = 280
COMMAND = "buttress bench diagnosis --out DIR --tools rldoctor,rlvr-audit,rlprobe"


@dataclass(frozen=True)
class Bench:
    """What every tool said of every run."""

    answers: dict[str, list[Answer]]
    faults: dict[str, int]

    @property
    def runs(self) -> int:
        """How many runs the corpus had."""
        return len(self.answers[BUTTRESS])

    def as_dict(self) -> dict[str, Any]:
        """Return the scores over all runs."""
        return {
            "runs": self.runs,
            "tools": {name: score(answers) for name, answers in self.answers.items()},
        }

    def half(self, half: Half) -> dict[str, Any]:
        """Return the scores over one half of the corpus."""
        chosen = {
            name: [one for one in answers if one.recipe.half == half]
            for name, answers in self.answers.items()
        }
        return {
            "runs": len(chosen[BUTTRESS]),
            "tools": {name: score(answers) for name, answers in chosen.items()},
        }

    def conclusion(self) -> str:
        """Return what came of it in one sentence."""
        scores = self.as_dict()["tools"]
        own = scores.pop(BUTTRESS)
        held_out = self.half("held out")["tools"][BUTTRESS]["macro_f1"]
        said = (
            f"Over {self.runs} runs buttress reaches a macro-F1 of {own['macro_f1']:.3f} "
            f"({held_out:.3f} on the held-out half) with {own['false_alarms']} false alarms"
        )
        others = "; ".join(
            f"{name} {one['macro_f1']:.3f} with {one['false_alarms']}"
            for name, one in scores.items()
        )
        return f"{said}; {others}." if others else f"{said}."

    def evidence(self) -> dict[str, Any]:
        """Return all scores, and every run with what was said of it.

        The first entries are those of every page of evidence.
        """
        return {
            "experiment": "diagnosis",
            "question": "Do diagnoses name the cause, on runs with known causes?",
            "command": COMMAND,
            "seeds": list(range(self.runs)),
            "conclusion": self.conclusion(),
            **self.as_dict(),
            "halves": {half: self.half(half) for half in HALVES},
            "spurious": {name: spurious(answers) for name, answers in self.answers.items()},
            "faults": self.faults,
            "rows": [self._row(at) for at in range(self.runs)],
        }

    def _row(self, at: int) -> dict[str, Any]:
        recipe = self.answers[BUTTRESS][at].recipe
        return {
            "name": recipe.name,
            "half": recipe.half,
            "labels": list(recipe.kind.labels),
            "named": {name: sorted(one[at].named) for name, one in self.answers.items()},
        }


def run_bench(
    runs: int = RUNS,
    *,
    tools: Sequence[str] | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Bench:
    """Score buttress, and other tools beside it, on the first `runs` runs of the corpus.

    Parameters
    ----------
    tools
        Tools to ask; those that are named and not installed are installed below `out`. None asks
        buttress and what stands there already.
    out
        Directory whose ``tools`` holds an environment for each other tool.
    say
        Is told what is left out, and how far the work is.
    """
    check(tools or ())
    install = tools is not None
    asked = [name for name in NAMES if name != BUTTRESS and (tools is None or name in tools)]
    found = [find(name, out, install=install, say=say) for name in asked]
    others = [one for one in found if one is not None]
    answers: dict[str, list[Answer]] = {BUTTRESS: []}
    calls: dict[str, list[list[str]]] = {one.name: [] for one in others}
    with tempfile.TemporaryDirectory() as folder:
        for recipe in recipes(runs):
            draft, place = make(recipe), Path(folder) / recipe.name
            write(draft, recipe.format, place / "log")
            answers[BUTTRESS].append(Answer(recipe, _diagnosed(place / "log")))
            for one in others:
                calls[one.name].append(one.prepare(draft, place / one.name))
            # the logs of all runs never lie on the disc together
            shutil.rmtree(place / "log")
            if (recipe.number + 1) % 20 == 0:
                say(f"{recipe.number + 1} of {runs} runs")
        for one in others:
            say(f"asking {one.name}")
            answers[one.name] = _answers(one, calls[one.name], answers[BUTTRESS])
            if one.faults:
                say(f"{one.name}: {one.faults} of {runs} calls failed and count as silence")
    return Bench(answers, {one.name: one.faults for one in others})


def _answers(tool: Tool, calls: list[list[str]], known: list[Answer]) -> list[Answer]:
    heard = tool.hear_all(calls)
    return [Answer(one.recipe, said) for one, said in zip(known, heard, strict=True)]


def _diagnosed(log: Path) -> tuple[Heard, ...]:
    from buttress.logs import read
    from buttress.report.diagnosis import diagnose
    from buttress.rules import Severity

    found = diagnose(read(log)).findings
    return tuple(Heard(one.rule, (one.rule,)) for one in found if one.severity > Severity.INFO)


def tell(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")

"""The demo as it runs, on standard error: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from buttress.lab.arm import Done, Report, Step

LINES = 6  # per run, where there is no terminal


class DemoProgress:
    """Shows the reports of several runs; use it as a context manager.

    Parameters
    ----------
    remedies
        Names of the runs.
    steps
        Training steps of each.
    console
        Where to; standard error by default.
    """

    def __init__(
        self, remedies: Sequence[str], steps: int, *, console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True)
        self._steps = steps
        self._bars = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks = {
            remedy: self._bars.add_task(remedy, total=steps, said="loading torch and TRL")
            for remedy in remedies
        }

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, remedy: str, report: Report) -> None:
        """Show one report of one run."""
        said, step = self._said(report), self._step_of(report)
        self._bars.update(self._tasks[remedy], completed=step, said=said)
        due = not isinstance(report, Step) or step % max(1, self._steps // LINES) == 0
        if due and not self._console.is_terminal:
            line = f"{remedy:<9} {step:>4}/{self._steps}  {said}"
            self._console.print(line, highlight=False, markup=False)

    def _step_of(self, report: Report) -> int:
        if isinstance(report, Step):
            return report.step
        return self._steps if isinstance(report, Done) else 0

    @staticmethod
    def _said(report: Report) -> str:
        if isinstance(report, Step):
            return f"reward {_number(report.reward)}  ACR {_number(report.acr)}"
        when = "after" if isinstance(report, Done) else "before"
        return f"greedy accuracy {when} training {report.greedy:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

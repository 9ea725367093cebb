"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Group, Parameter

from buttress.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from buttress.groups import Run
    from buttress.logs.reader import ReadOptions
    from buttress.report.runs import NamedCase
    from buttress.rules import Case

_SAID = 5  # problems in one message
_UNSURE = "it may belong to several of the runs, so that it was given to none"
READING = Group("Reading", sort_key=1)
JUDGING = Group("Judging", sort_key=2)
OUTPUT = Group("Output", sort_key=3)


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How a log is read.

    Parameters
    ----------
    format
        Read every file as this format instead of recognising it: trl, verl, prime-rl, verifiers,
        nemo-rl, areal, skyrl, ms-swift, open-instruct, roll, rllm, tinker, inspect_ai, generic;
        metrics of wandb, tensorboard, mlflow, trackio.
    map
        NAME=COLUMN: what a column of the log is, e.g. --map reward=my_score. Names: step, group,
        sample, prompt_id, prompt, completion, reward, reward/<name>, correct, advantage, length,
        truncated. Repeatable.
    group_size
        Rollouts per prompt, where the log does not name its groups.
    run
        Name or id of the run to read, where the store of a tracker (W&B, TensorBoard, MLflow,
        Trackio) holds several.
    tolerance
        Rewards this close are tied: sets the absolute and the relative tolerance.
    """

    format: Annotated[str | None, Parameter(group=READING)] = None
    map: Annotated[list[str] | None, Parameter(negative="", group=READING)] = None
    group_size: Annotated[int | None, Parameter(group=READING)] = None
    run: Annotated[str | None, Parameter(group=READING)] = None
    tolerance: Annotated[float | None, Parameter(group=JUDGING)] = None

    @property
    def options(self) -> ReadOptions:
        """How each file is read."""
        from buttress.logs.reader import ReadOptions

        return ReadOptions(self.format, mapping(self.map or []), self.group_size, self.run)

    def case(self, paths: str | list[str], *, quiet: bool = True) -> Case:
        """Read paths and return the run with its tolerance, ready to be examined."""
        from buttress.groups import Tolerance
        from buttress.logs import read
        from buttress.report.progress import reading
        from buttress.rules import Case

        tolerance = Tolerance.of(self.tolerance)
        with reading(quiet=quiet) as progress:
            run = read(
                paths,
                format=self.format,
                map=mapping(self.map or []),
                group_size=self.group_size,
                run=self.run,
                progress=progress,
            )
        if not (run.groups.n_samples or run.scalars):
            raise InputError(_nothing(run))
        return Case(run, tolerance)

    def cases(self, paths: list[str], *, quiet: bool = True) -> list[NamedCase]:
        """Read paths and return each run that is among them.

        Of several runs those that cannot be read become a problem of the first that can.
        """
        from buttress.groups import Problem
        from buttress.logs.runs import split_runs
        from buttress.report.runs import NamedCase
        from buttress.rules import Case

        runs = split_runs(paths, self.options)
        if len(runs) == 1:
            return [NamedCase(runs[0].name, self.case(paths, quiet=quiet), runs[0].seed)]
        found: list[NamedCase] = []
        lost: list[Problem] = []
        for one in runs:
            lost += [Problem(path, 0, _UNSURE) for path in one.left]
            try:
                found.append(NamedCase(one.name, self.case(one.paths, quiet=quiet), one.seed))
            except InputError as fault:
                lost.append(Problem(one.paths[0], 0, str(fault)))
        if not found:
            raise InputError("; ".join(problem.message for problem in lost[:_SAID]))
        first = found[0].case
        run = replace(first.run, problems=(*first.run.problems, *lost))
        return [found[0]._replace(case=Case(run, first.tolerance)), *found[1:]]


def _nothing(run: Run) -> str:
    if not run.problems:
        return f"no rows in {', '.join(run.source.paths[:_SAID])}"
    said = [
        f"{one.file}:{one.line}: {one.message}"
        if one.line
        else f"{one.file}: {one.message}".removeprefix(": ")
        for one in run.problems
    ]
    more = f"; and {len(said) - _SAID} more problems" if len(said) > _SAID else ""
    return f"no rollouts and no metrics could be read. {'; '.join(said[:_SAID])}{more}".rstrip()


def names(values: list[str] | None) -> list[str]:
    """Return the names of a repeatable, comma-separated option."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def mapping(pairs: list[str]) -> dict[str, str]:
    """Return ``NAME=COLUMN`` pairs as a dictionary."""
    found = {}
    for pair in pairs:
        canonical, equals, column = pair.partition("=")
        if not (canonical and equals and column):
            raise UsageError(f"--map takes NAME=COLUMN, e.g. reward=score; got {pair!r}")
        found[canonical] = column
    return found


def standard_output() -> Console:
    """Return a console that prints to standard output."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(file=cast("IO[str]", _Trimmed(sys.stdout)))


class _Trimmed:
    """A stream without the spaces with which tables are filled up to the width."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

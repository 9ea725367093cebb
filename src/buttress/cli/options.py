"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from buttress.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from buttress.groups import Run
    from buttress.rules import Case

_SAID = 5  # problems in one message
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
        Read COLUMN as a column of the rollout table, e.g. --map reward=my_score. Repeatable.
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


def _nothing(run: Run) -> str:
    if not run.problems:
        return f"no rows in {', '.join(run.source.paths[:_SAID])}"
    said = [
        f"{one.file}:{one.line}: {one.message}" if one.line else f"{one.file}: {one.message}"
        for one in run.problems
    ]
    more = f"; and {len(said) - _SAID} more problems" if len(said) > _SAID else ""
    return f"no rollouts and no metrics could be read. {'; '.join(said[:_SAID])}{more}".rstrip()


def names(values: list[str] | None) -> list[str]:
    """Return the names of a repeatable, comma-separated option."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def mapping(pairs: list[str]) -> dict[str, str]:
    """Return ``CANONICAL=COLUMN`` pairs as a dictionary."""
    found = {}
    for pair in pairs:
        canonical, equals, column = pair.partition("=")
        if not (canonical and equals and column):
            raise UsageError(f"--map takes CANONICAL=COLUMN, e.g. reward=score; got {pair!r}")
        found[canonical] = column
    return found


def standard_output() -> Console:
    """Return a console that prints to standard output."""
    from rich.console import Console

    return Console()

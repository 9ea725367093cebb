"""Looks at a running job again and again: reads, diagnoses, and decides whether it must stop."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from buttress.errors import InputError
from buttress.groups import Run
from buttress.report import Diagnosis
from buttress.rules import Severity
from buttress.watch.files import KeptFiles, holding_place

Diagnose = Callable[[Mapping[str, str]], Diagnosis]

# A look may take this share of the time at most, so a long log does not keep a core busy.
BUSY = 0.2


@dataclass(frozen=True)
class Look:
    """What one look found.

    Attributes
    ----------
    diagnosis
        None while there is nothing to read.
    changed
        Whether anything was written since the last look.
    idle
        Seconds since something was written.
    stop
        Names of error findings that have held for long enough.
    """

    diagnosis: Diagnosis | None
    changed: bool
    idle: float
    stop: tuple[str, ...] = ()


class Watcher:
    """Follows a path; every look reads what changed and diagnoses the whole.

    What a finished job looks like at the end is what `buttress diagnose` says of it, because it is
    the same reading. Time is that of a monotonic clock: clocks that jump do not matter.

    Parameters
    ----------
    path
        A file, directory or pattern, which may not exist yet.
    diagnose
        From files, each with the name that the user knows it by, to a diagnosis; raises
        `InputError` where there is nothing to read yet.
    hold
        Looks with news in a row that must show an error before it asks for a stop.
    folder
        Where files are held (see `KeptFiles`); by default a temporary directory.
    """

    def __init__(
        self,
        path: str,
        diagnose: Diagnose,
        *,
        hold: int = 3,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._temporary = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix=".buttress-watch-", dir=holding_place(path)
            )
            folder = Path(self._temporary.name)
        self.files = KeptFiles(path, folder)
        self._diagnose, self._hold, self._clock = diagnose, hold, clock
        self._last: Diagnosis | None = None
        self._news_at = clock()
        self._errors: dict[str, int] = {}
        self.cost = 0.0  # seconds of the last look

    def look(self) -> Look:
        """Look once."""
        begin = self._clock()
        changed = self.files.refresh()
        if changed:
            self._news_at = begin
            with suppress(InputError):  # a file that has only begun
                self._last = self._diagnose(self.files.files)
                self._count()
        self.cost = self._clock() - begin
        stop = tuple(name for name, looks in self._errors.items() if looks >= self._hold)
        return Look(self._last, changed, begin - self._news_at, stop)

    def pause(self, interval: float) -> float:
        """Return how long to wait: the interval, or longer where looks are dear."""
        return max(interval, self.cost * (1 / BUSY - 1))

    def close(self) -> None:
        """Give up the held files."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def _count(self) -> None:
        findings = self._last.findings if self._last else ()
        now = [one.rule for one in findings if one.severity >= Severity.ERROR]
        self._errors = {rule: self._errors.get(rule, 0) + 1 for rule in now}


def under_their_names(run: Run, files: Mapping[str, str]) -> Run:
    """Return a run whose problems and source speak of files by the names that the user knows."""
    problems = tuple(one._replace(file=files.get(one.file, one.file)) for one in run.problems)
    paths = tuple(files.get(path, path) for path in run.source.paths)
    return replace(run, problems=problems, source=replace(run.source, paths=paths))


def write_stop(path: Path, look: Look) -> None:
    """Create the stop file, as a whole, with the findings that ask for it; an old one is kept."""
    if path.exists() or look.diagnosis is None:
        return
    reasons: list[dict[str, Any]] = [
        {"rule": one.rule, "code": one.code, "message": one.message, "steps": one.steps}
        for one in look.diagnosis.findings
        if one.rule in look.stop
    ]
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps({"stop": reasons}, indent=1) + "\n")
    unfinished.replace(path)

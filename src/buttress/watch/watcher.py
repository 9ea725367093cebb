"""Looks at a running job again and again: reads, diagnoses, and decides whether it must stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from buttress.errors import InputError
from buttress.groups import Run
from buttress.logs.reader import ReadOptions
from buttress.report import Diagnosis
from buttress.report.document import to_json
from buttress.report.files import write_text
from buttress.rules import Severity
from buttress.watch.files import KeptFiles
from buttress.watch.holding import Holding

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
        Where files are held (see `KeptFiles`); by default a directory of its own.
    options, own
        See `KeptFiles`.

    Attributes
    ----------
    cost
        Seconds of the last look; whoever shows it may add what that took.
    fault
        Why nothing could be read, if so.
    unheld
        Why files cannot be held, so that deleted ones are lost; empty where they can.
    """

    def __init__(
        self,
        path: str,
        diagnose: Diagnose,
        *,
        hold: int = 3,
        folder: Path | None = None,
        options: ReadOptions | None = None,
        own: Iterable[str | Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._holding = None
        if folder is None:
            self._holding = Holding(path)
            folder = self._holding.folder
        self.files = KeptFiles(path, folder, options, own)
        self._diagnose, self._hold, self._clock = diagnose, hold, clock
        self._last: Diagnosis | None = None
        self._news_at = clock()
        self._again = False  # what was there could not be read
        self._errors: dict[str, int] = {}
        self.cost = 0.0
        self.fault = ""
        self.unheld = "" if self._holding is None else self._holding.fault

    def look(self) -> Look:
        """Look once."""
        begin = self._clock()
        news, again = self.files.refresh(), self._again
        if news:
            self._news_at = begin
        changed = news or again
        if changed and self._read():
            self._count()
        self.cost = self._clock() - begin
        return self._look(changed, begin)

    def finish(self) -> Look:
        """Read once more, news or not: settings and metrics beside the files may have changed."""
        self.files.refresh()
        self._read()
        return self._look(True, self._clock())

    def pause(self, interval: float) -> float:
        """Return how long to wait: the interval, or longer where looks are dear."""
        return max(interval, self.cost * (1 / BUSY - 1))

    def close(self) -> None:
        """Give up the held files."""
        if self._holding is not None:
            self._holding.close()

    def _look(self, changed: bool, now: float) -> Look:
        stop = tuple(name for name, looks in self._errors.items() if looks >= self._hold)
        return Look(self._last, changed, now - self._news_at, stop)

    def _read(self) -> bool:
        """Diagnose what there is; return whether that was possible."""
        self._again, files = False, self.files.files
        if not files:
            self.fault = "no such file or directory"
            return False
        try:
            self._last = self._diagnose(files)
        except InputError as fault:  # nothing there yet, or a file that has only begun
            self.fault = str(fault)
        except OSError as fault:  # gone while it was read, or on a disc that went away
            self.fault, self._again = str(fault), True
        else:
            return True
        return False

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
    found = look.diagnosis.as_dict()
    reasons = [finding for finding in found["findings"] if finding["rule"] in look.stop]
    document = {"stop": reasons, "source": found["source"], "verdict": found["verdict"]}
    write_text(path, to_json(document) + "\n")

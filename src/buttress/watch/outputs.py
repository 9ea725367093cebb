"""What is written beside the screen; a fault there is said once and does not end the watch."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from buttress.errors import ButtressError
from buttress.hooks.sinks.outbox import Sink
from buttress.logs.reader import ReadOptions
from buttress.logs.runs import split_runs
from buttress.report.hostile import safe_text
from buttress.watch.gauges import row_of
from buttress.watch.watcher import Look, write_stop

_NAMED = 5


class Outputs:
    """The report, the stop file and the numbers of a watched run.

    Parameters
    ----------
    path, options
        What is watched, and how it is read.
    html, stop_file
        Files to write, or None.
    gauges
        Takes the numbers, or None.
    """

    def __init__(
        self,
        path: str,
        options: ReadOptions,
        html: str | None = None,
        stop_file: str | None = None,
        gauges: Sink | None = None,
    ) -> None:
        self._path, self._options = path, options
        self._html, self._stop_file, self._gauges = html, stop_file, gauges
        self._said: set[str] = set()
        self._begun = False

    def warn(self, unheld: str) -> None:
        """Say why files cannot be held, if they cannot."""
        if unheld:
            self._say(
                f"files that the job deletes will be lost to the watch, since none can be kept "
                f"({unheld}); set TMPDIR to a folder with room"
            )

    def deliver(self, look: Look) -> None:
        """Write everything that was asked for."""
        diagnosis, html, stop_file = look.diagnosis, self._html, self._stop_file
        if diagnosis is None:
            return
        if not self._begun:
            self._begun = True
            self._warn_of_several()
        if html is not None:
            self._try(lambda: diagnosis.to_html(html), html)
        if look.stop and stop_file is not None:
            self._try(lambda: write_stop(Path(stop_file), look), stop_file)
        if self._gauges is not None:
            self._gauges.write(row_of(diagnosis))

    def close(self) -> None:
        """End what goes on in the background."""
        if self._gauges is not None:
            self._gauges.close()

    def _warn_of_several(self) -> None:
        runs = split_runs([self._path], self._options)
        if len(runs) > 1:
            named = ", ".join(run.name for run in runs[:_NAMED])
            self._say(
                f"{self._path} holds {len(runs)} runs ({named}), which are watched as one: "
                "name the folder of one of them"
            )

    def _try(self, action: Callable[[], object], what: str) -> None:
        try:
            action()
        except (OSError, ButtressError) as fault:
            if what not in self._said:
                self._said.add(what)
                self._say(f"{what} could not be written: {fault}")

    def _say(self, what: str) -> None:
        with no_room():
            sys.stderr.write(f"buttress: {safe_text(what)}\n")


@contextmanager
def no_room() -> Generator[None]:
    """Let what is said be lost where the disc that it goes to is full; the watch goes on."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise

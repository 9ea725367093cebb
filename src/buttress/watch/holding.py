"""A directory for the links of one watcher; the next one clears away what a killed one left."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where what a killed watcher leaves behind stays
    fcntl = None

PREFIX = ".buttress-watch-"
LOCK = ".lock"


class Holding:
    """A directory that exists until `close`, on the file system of the watched path if possible.

    Its lock is held as long as the watcher lives, however it ends; directories of watchers that
    were killed are removed on the way.

    Attributes
    ----------
    folder
        The directory.
    fault
        Why it could not be made, as on a full or read-only disc; empty where it was.
    """

    def __init__(self, path: str) -> None:
        place = _place(path)
        self.fault, self._lock = "", -1
        self.folder = place / f"{PREFIX}{os.getpid()}"
        try:
            self._make(place)
        except OSError as fault:
            self.fault = f"{place}: {fault.strerror}"

    def _make(self, place: Path) -> None:
        _sweep(place)
        self.folder, self._lock = _locked(place)
        while not (self.folder / LOCK).exists():  # cleared away before it was locked
            os.close(self._lock)
            self.folder, self._lock = _locked(place)

    def close(self) -> None:
        """Remove the directory."""
        if self._lock >= 0:
            os.close(self._lock)
        shutil.rmtree(self.folder, ignore_errors=True)


def _place(path: str) -> Path:
    """Return where links to the files of a path can be made."""
    parent = Path(path).absolute().parent
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError:  # none that can be written to
        return parent
    with suppress(OSError):
        if parent.stat().st_dev != temporary.stat().st_dev and os.access(parent, os.W_OK):
            return parent
    return temporary


def _locked(place: Path) -> tuple[Path, int]:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks: nobody clears it away either
            fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _sweep(place: Path) -> None:
    """Remove the directories of watchers that are no more."""
    if fcntl is None:
        return
    for lock in place.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):
            file = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(file)

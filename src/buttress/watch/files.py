"""Keeps hold of the files of a running job, so that nothing is lost and nothing counts twice.

As long as its files stay where they are, a job is read in its own place, as `diagnose` reads it:
with the settings and metrics that lie beside the rollouts. Every file of rollouts or metrics is
also held by a hard link in a directory of the watcher's own (or by a copy, where links cannot be
made), and read from there once it was deleted or moved to a name that no reader takes. A moved file
is the same file still, so it counts once. A file that takes the place of another replaces it if it
begins with the same bytes, since trainers rewrite whole files; if it begins otherwise, the job
began a new file, and both count.

Nothing else is held: a link to a checkpoint would keep its gigabytes on the disc after the trainer
has deleted it. A file that is cut off in place is the one thing that cannot be held: what was in it
is gone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from buttress.errors import InputError
from buttress.logs.files import expand, located
from buttress.logs.reader import ReadOptions
from buttress.logs.selection import select

_HEAD = 1024  # bytes by which a rewritten file is known
_ROTATED = re.compile(r"^(?P<stem>.+?)(?P<end>\.(?:jsonl|json|csv|parquet)(?:\.gz|\.zst)?)\.\d+$")

Key = tuple[int, int]  # device and inode
State = tuple[int, int]  # size and time of change


@dataclass
class _Held:
    """One file: where it was seen, its link, and what it looked like."""

    seen: Path
    link: Path
    state: State
    copied: bool
    read_in_place: bool = True


class KeptFiles:
    """The files of a job as they were last seen.

    Parameters
    ----------
    path
        What the user watches: a file, a directory or a pattern. It may not exist yet.
    folder
        An empty or earlier directory of the watcher's own, best on the same file system.
    options
        How the files will be read; says which of them hold rollouts or metrics.
    own
        Files that the watcher writes: they are no news.

    Attributes
    ----------
    cut
        Files that became shorter in place.
    """

    def __init__(
        self,
        path: str,
        folder: Path,
        options: ReadOptions | None = None,
        own: Iterable[str | Path] = (),
    ) -> None:
        self.path, self.folder = path, folder
        self.cut: list[str] = []
        self._options = options or ReadOptions()
        self._own = {os.path.realpath(one) for one in own}
        self._own_names = {Path(one).name for one in self._own}
        self._held: dict[Key, _Held] = {}
        self._at: dict[Path, Key] = {}  # the held file that was last seen at a path
        self._passed: dict[Path, tuple[Key, State]] = {}  # files that hold nothing to read
        self._there = False

    def refresh(self) -> bool:
        """Look for new, grown, moved, deleted and replaced files; return whether any was.

        Only files of rollouts and metrics are news: a log that grows beside them is not.
        """
        try:
            files = expand(self.path)
        except InputError:
            files = []  # not there yet, or no longer
        self._there = bool(files)
        changed, present = False, set()
        for file in files:
            if file.name in self._own_names and os.path.realpath(file) in self._own:
                continue
            with suppress(OSError):  # gone between listing and looking, or out of reach now
                status = file.stat()
                key = status.st_dev, status.st_ino
                changed |= self._see(file, key, (status.st_size, status.st_mtime_ns))
                present.add(key)
        return changed | self._miss(present)

    @property
    def files(self) -> dict[str, str]:
        """What there is to read, each with the path that the user knows it by."""
        found = {self.path: self.path} if self._there else {}
        gone = (held for held in self._held.values() if not held.read_in_place)
        return found | {str(held.link): str(held.seen) for held in gone if held.link.exists()}

    def _see(self, file: Path, key: Key, state: State) -> bool:
        held = self._held.get(key)
        if held is None:
            return self._meet(file, key, state)
        moved, grown = held.seen != file, held.state != state
        if moved or not held.read_in_place:
            self._at[file], held.seen = key, file
            held.read_in_place = self._readable(file, self._named(file))
        if grown:
            if state[0] < held.state[0]:
                self.cut.append(str(file))
            if held.copied:
                _keep(file, held.link)
            held.state = state
        return moved or grown

    def _miss(self, present: set[Key]) -> bool:
        """Turn to the links of files that are gone."""
        gone = [
            held for key, held in self._held.items() if held.read_in_place and key not in present
        ]
        for held in gone:
            held.read_in_place = False
        return bool(gone)

    def _meet(self, file: Path, key: Key, state: State) -> bool:
        """Take a file that is not held yet, if there is something to read in it."""
        if self._passed.get(file) == (key, state):
            return False
        in_place = self._readable(file, self._named(file))
        if not in_place and not (_ROTATED.match(file.name) and self._readable(file, {file})):
            self._passed[file] = key, state
            return False
        self._passed.pop(file, None)
        self._hold(key, file, state)
        self._held[key].read_in_place = in_place
        return True

    def _named(self, file: Path) -> set[Path]:
        """Return the files that the user named themselves, as `read` has it."""
        return set() if located(self.path).is_dir() else {file}

    def _readable(self, file: Path, named: set[Path]) -> bool:
        return bool(select([file], named, self._options).taken)

    def _hold(self, key: Key, file: Path, state: State) -> None:
        before = self._at.get(file)
        if before is not None and _begins_alike(self._held[before].link, file):
            self._held.pop(before).link.unlink(missing_ok=True)  # a rewritten file
        link = self._place(file)
        self._held[key] = _Held(file, link, state, not _linked(file, link))
        self._at[file] = key

    def _place(self, file: Path) -> Path:
        """Return a free place under the file's own name, since readers look at names."""
        base = Path(self.path)
        inside = file.relative_to(base) if base.is_dir() else Path(file.name)
        rotated = _ROTATED.match(inside.name)
        name = rotated["stem"] + rotated["end"] if rotated else inside.name
        place, again = self.folder / inside.parent / name, 0
        while place.exists():
            again += 1
            place = self.folder / f"{again}" / inside.parent / name
        return place


def _linked(file: Path, link: Path) -> bool:
    """Link a file and return True, or copy it where links cannot be made."""
    with suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, link)
        return True
    _keep(file, link)
    return False


def _keep(file: Path, link: Path) -> None:
    """Copy a file; on a full or read-only disc it is read in its place and cannot outlive it."""
    try:
        shutil.copyfile(file, link)
    except OSError:
        with suppress(OSError):
            link.unlink(missing_ok=True)


def _begins_alike(one: Path, other: Path) -> bool:
    with suppress(OSError):
        first, second = _head(one), _head(other)
        shorter = min(len(first), len(second))
        return shorter > 0 and first[:shorter] == second[:shorter]
    return False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)

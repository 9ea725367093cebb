"""Keeps hold of the files of a running job, so that nothing is lost and nothing counts twice.

Every file below the watched path is held by a hard link in a directory of the watcher's own (or by
a copy, where links cannot be made). A file that is deleted or moved away stays readable through its
link; a moved file is the same file still, so it counts once. A file that takes the place of another
takes its place here too if it begins with the same bytes, since trainers rewrite whole files; if it
begins otherwise, the job began a new file, and both count.

A file that is cut off in place is the one thing that cannot be held: what was in it is gone.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from buttress.errors import InputError
from buttress.logs.files import expand

_HEAD = 1024  # bytes by which a rewritten file is known
_ROTATED = re.compile(r"^(?P<stem>.+?)(?P<end>\.(?:jsonl|json|csv|parquet)(?:\.gz|\.zst)?)\.\d+$")


@dataclass
class _Held:
    """One file: where it was seen, its link, and what it looked like."""

    seen: Path
    link: Path
    state: tuple[int, int]  # size and time of change
    copied: bool


class KeptFiles:
    """The files of a job as they were last seen.

    Parameters
    ----------
    path
        What the user watches: a file, a directory or a pattern. It may not exist yet.
    folder
        An empty or earlier directory of the watcher's own, best on the same file system.

    Attributes
    ----------
    cut
        Files that became shorter in place.
    """

    def __init__(self, path: str, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.cut: list[str] = []
        self._held: dict[tuple[int, int], _Held] = {}  # by device and inode

    def refresh(self) -> bool:
        """Look for new, grown, moved and replaced files; return whether anything changed."""
        try:
            files = expand(self.path)
        except InputError:
            return False  # not there yet, or no longer
        changed = False
        for file in files:
            with suppress(FileNotFoundError):  # gone between listing and looking
                changed |= self._see(file)
        return changed

    @property
    def files(self) -> dict[str, str]:
        """What there is to read, each with the path that the user knows it by."""
        return {str(held.link): str(held.seen) for held in self._held.values()}

    def _see(self, file: Path) -> bool:
        status = file.stat()
        key, state = (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns)
        held = self._held.get(key)
        if held is None:
            self._hold(key, file, state)
            return True
        held.seen = file
        if held.state == state:
            return False
        if state[0] < held.state[0]:
            self.cut.append(str(file))
        if held.copied:
            shutil.copyfile(file, held.link)
        held.state = state
        return True

    def _hold(self, key: tuple[int, int], file: Path, state: tuple[int, int]) -> None:
        for other, held in list(self._held.items()):
            if held.seen == file and _begins_alike(held.link, file):
                held.link.unlink(missing_ok=True)  # a rewritten file
                del self._held[other]
        link = self._place(file)
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, link)
            copied = False
        except OSError:
            shutil.copyfile(file, link)
            copied = True
        self._held[key] = _Held(file, link, state, copied)

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


def holding_place(path: str) -> str | None:
    """Return a directory on the file system of a path, for links; None for the temporary one."""
    parent = Path(path).absolute().parent
    with suppress(OSError):
        if parent.stat().st_dev != Path(tempfile.gettempdir()).stat().st_dev:
            return str(parent) if os.access(parent, os.W_OK) else None
    return None


def _begins_alike(one: Path, other: Path) -> bool:
    with suppress(OSError):
        first, second = one.read_bytes()[:_HEAD], other.read_bytes()[:_HEAD]
        shorter = min(len(first), len(second))
        return shorter > 0 and first[:shorter] == second[:shorter]
    return False

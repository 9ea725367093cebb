"""Finished problems on disk: appended line by line, so that whatever ends a run loses one batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from buttress.errors import ButtressError, InputError, UsageError
from buttress.train.changes import differences

SETTINGS = "settings.json"
_FINISHED = "finished-{}.jsonl"


class Outcome(msgspec.Struct, omit_defaults=True):
    """What came of one problem.

    Attributes
    ----------
    index
        Its place in the data set, from 0.
    scores
        One per completion; None where it could not be judged.
    lengths
        Tokens per completion.
    truncated
        Completions that the cap ended.
    faults
        Reasons why completions could not be judged, with their number.
    texts
        The completions, where they are kept.
    """

    index: int
    scores: list[float | None]
    lengths: list[int]
    truncated: int = 0
    faults: dict[str, int] = {}
    texts: list[str] | None = None

    def tries(self) -> int:
        """Return how many completions could be judged."""
        return sum(score is not None for score in self.scores)

    def successes(self, threshold: float) -> int:
        """Return how many reached a score."""
        return sum(score is not None and score >= threshold for score in self.scores)


class Store:
    """The outcomes of one sampling; those of earlier, ended runs with equal settings included.

    Every rank appends to a file of its own and reads those of all. A line that was cut off when its
    process was killed is dropped, and its problem sampled again: batches depend on the settings
    alone, so the result is that of an undisturbed run.

    Parameters
    ----------
    folder
        Made if it is missing; None keeps everything in memory.
    record
        Everything that decides the outcomes.
    rank
        This process among those of the run.

    Raises
    ------
    UsageError
        Where the folder holds outcomes of other settings; the message says which differ.
    """

    def __init__(self, folder: Path | None, record: Mapping[str, Any], *, rank: int = 0) -> None:
        self._folder = folder
        self._file = None if folder is None else folder / _FINISHED.format(rank)
        self.outcomes: dict[int, Outcome] = {}
        if folder is not None:
            _claim(folder, msgspec.to_builtins(record))
            self.reread()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Take finished problems; they are on the disk when this returns."""
        new = [one for one in outcomes if one.index not in self.outcomes]
        if self._file is not None and new:
            _append(self._file, b"".join(msgspec.json.encode(one) + b"\n" for one in new))
        self.outcomes.update((one.index, one) for one in new)

    def reread(self) -> None:
        """Read what all ranks have finished so far."""
        if self._folder is None or self._file is None:
            return
        _cut_torn_line(self._file)
        decode = msgspec.json.Decoder(Outcome).decode
        for path in sorted(self._folder.glob(_FINISHED.format("*"))):
            for line in path.read_bytes().split(b"\n")[:-1]:
                with suppress(msgspec.MsgspecError):  # a damaged line is sampled again
                    outcome = decode(line)
                    self.outcomes.setdefault(outcome.index, outcome)

    def newest(self) -> tuple[int, int]:
        """Return when outcomes were last written, and by which rank; (0, 0) where none were."""
        if self._folder is None:
            return 0, 0
        written = [(0, 0)]
        for path in self._folder.glob(_FINISHED.format("*")):
            rank = path.stem.rpartition("-")[2]
            if rank.isdecimal():
                written.append((path.stat().st_mtime_ns, int(rank)))
        return max(written)


def _claim(folder: Path, record: dict[str, Any]) -> None:
    """Declare whose outcomes a folder holds, or raise where they are another's."""
    path = folder / SETTINGS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if any(folder.glob(_FINISHED.format("*"))):
                raise UsageError(
                    f"{folder} holds outcomes without {SETTINGS}; choose another --out"
                )
            write_whole(path, json.dumps(record, indent=1).encode())
        known = json.loads(path.read_bytes())
    except ValueError as fault:
        if isinstance(fault, UsageError):
            raise
        raise InputError(f"{path} is damaged ({fault}); choose another --out") from None
    except OSError as fault:
        raise InputError(f"cannot write into {folder}: {fault.strerror or fault}") from None
    changed = differences(known, record)
    if changed:
        raise UsageError(
            f"{folder} holds outcomes of other settings: {'; '.join(changed)}. Give the old "
            "settings to go on, or another --out to begin anew"
        )


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file that is whole or not there at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as fault:
        with suppress(OSError):
            draft.unlink()
        raise _full(path, fault) from fault
    return path


def _append(path: Path, data: bytes) -> None:
    rest = memoryview(data)
    try:
        with path.open("ab", buffering=0) as file:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
    except OSError as fault:
        with suppress(OSError):
            _cut_torn_line(path)
        raise _full(path, fault) from fault


def _full(path: Path, fault: OSError) -> ButtressError:
    return ButtressError(
        f"cannot write {path}: {fault.strerror or fault}. What was finished before is kept: make "
        "room and give the same command again"
    )


def _cut_torn_line(path: Path) -> None:
    """Remove what stands behind the last line feed: the writer was ended there."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)

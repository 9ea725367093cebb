"""Writing a report so that a reader never meets half of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from buttress.errors import InputError


def target(path: Path) -> Path:
    """Return the file to write for a path: links are followed, so that they stay.

    Raises `InputError` for a device, a pipe or a directory; a rename would put a file in its place.
    """
    try:
        real = Path(os.path.realpath(path))
        if real.exists() and not real.is_file():
            kind = "a directory" if real.is_dir() else "not a regular file"
            raise InputError(f"cannot write {path}: it is {kind}; name a file")
    except (OSError, ValueError) as fault:
        if isinstance(fault, InputError):
            raise
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise InputError(f"cannot write {path}: {why}") from None
    return real


def write_text(path: Path, text: str) -> Path:
    """Write a file in one step (a temporary file beside it, then a rename) and return its path.

    A path that cannot be written raises `InputError`; no directory is made on the way.
    """
    path = target(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as fault:
        with suppress(OSError):
            part.unlink()
        raise InputError(f"cannot write {path}: {fault.strerror or fault}") from fault
    return path

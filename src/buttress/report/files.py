"""Writing a report so that a reader never meets half of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from buttress.errors import InputError


def write_text(path: Path, text: str) -> Path:
    """Write a file in one step (a temporary file beside it, then a rename) and return its path.

    Directories on the way are made. A path that cannot be written raises `InputError`.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError as fault:
        with suppress(OSError):
            part.unlink()
        raise InputError(f"cannot write {path}: {fault.strerror or fault}") from fault
    return path

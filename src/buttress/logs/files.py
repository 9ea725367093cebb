"""From what the user types to files, and from files to decompressed bytes, in bounded memory."""

from __future__ import annotations

import glob
import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from buttress.errors import InputError

CHUNK = 4 << 20
HEAD = 64 << 10
HEAD_LIMIT = 16 << 20  # a first line longer than this is not recognised
COMPRESSED = (".gz", ".zst")
PICKLED = (".pkl", ".pickle", ".pt", ".pth")
PICKLE_ADVICE = (
    "pickled dumps are not opened, since loading one can run code: load it in the trainer's own "
    "environment and write JSONL, one object per rollout with the columns step, group, sample, "
    "prompt, completion, reward (and correct, length, truncated, advantage where known)"
)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# 4 KiB of zstd are at most 128 MiB of text, however hostile
_FEED = 4 << 10


class DamagedError(Exception):
    """A compressed stream broke; what came before it has been yielded."""


def expand(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a path means, in natural order: ``9.jsonl`` before ``10.jsonl``.

    A directory means every file below it (hidden ones left out), a pattern every match. Raises
    `InputError` when there is none.
    """
    given = Path(path).expanduser()
    text = str(given)
    if given.is_dir():
        return _below(given)
    if given.exists():
        if not given.is_file():
            raise InputError(f"{text} is not a regular file: save the stream to a file first")
        return [given]
    if glob.has_magic(text):
        return _matches(text)
    parent = next(one for one in given.parents if one.exists())
    raise InputError(f"no such file or directory: {text} ({parent} exists)")


def natural(path: Path) -> list[tuple[bool, int, str]]:
    """Return a sort key that compares runs of digits as numbers."""
    parts = re.split(r"(\d+)", str(path))
    return [(part.isdigit(), int(part) if part.isdecimal() else 0, part) for part in parts]


def plain_suffix(path: Path) -> str:
    """Return the lower-case suffix, compression left out: ``.jsonl`` of ``a.jsonl.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def plain_stem(path: Path) -> str:
    """Return the name without suffix and compression: ``12`` of ``12.jsonl.gz``."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def head(path: Path) -> bytes:
    """Return the first decompressed bytes: 64 KiB, or more until the first line is whole."""
    start = b""
    try:
        for chunk in chunks(path, HEAD):
            start += chunk
            if (len(start) >= HEAD and b"\n" in start) or len(start) >= HEAD_LIMIT:
                break
    except DamagedError:
        pass
    return start


def chunks(
    path: Path, size: int = CHUNK, advance: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """Yield the file's decompressed bytes; compression is told by content, not by name.

    `advance` is called with the number of bytes of the file that were used up.
    Raises `DamagedError` after the last readable byte of a broken stream, and `OSError`.
    """
    with path.open("rb", buffering=0) as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(_GZIP):
            stream = _gunzip(file)
        elif start == _ZSTD:
            stream = _unzstd(file)
        else:
            stream = iter(lambda: file.read(size), b"")
        before = 0
        for chunk in stream:
            yield chunk
            if advance:
                advance(-before + (before := file.tell()))


def _below(directory: Path) -> list[Path]:
    found, seen = [], set()
    for folder, names, files in os.walk(directory, followlinks=True):
        real = os.path.realpath(folder)
        names[:] = [] if real in seen else [name for name in names if not name.startswith(".")]
        if real not in seen:
            found += [Path(folder, name) for name in files if not name.startswith(".")]
        seen.add(real)
    found = sorted((path for path in found if path.is_file()), key=natural)
    if not found:
        raise InputError(f"the directory {directory} holds no files")
    return found


def _matches(pattern: str) -> list[Path]:
    found = [Path(one) for one in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - patterns may be absolute
    files = {path for path in found if path.is_file()}
    for path in found:
        if path.is_dir():
            files.update(_below(path) if any(path.iterdir()) else ())
    if not files:
        raise InputError(f"no file matches the pattern {pattern}")
    return sorted(files, key=natural)


def _gunzip(file: BinaryIO) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    pending = b""
    while pending or (pending := file.read(HEAD)):
        try:
            # bounded, so that a small file cannot fill the memory; small, since damage costs one
            if out := stream.decompress(pending, 1 << 20):
                yield out
        except zlib.error as fault:
            raise DamagedError(f"the gzip stream is damaged: {fault}") from None
        pending = stream.unconsumed_tail
        if stream.eof:  # another member may follow
            pending, stream = stream.unused_data, zlib.decompressobj(wbits=31)
            if not pending.strip(b"\0"):
                pending = file.read(HEAD)
                if not pending:
                    return
    raise DamagedError("the gzip stream ends early")


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    stream = zstandard.ZstdDecompressor().decompressobj()
    pending = b""
    while pending or (pending := file.read(_FEED)):
        try:
            if out := stream.decompress(pending):
                yield out
        except zstandard.ZstdError as fault:
            raise DamagedError(f"the zstd stream is damaged: {fault}") from None
        pending = b""
        if stream.eof:  # another frame may follow
            pending, stream = stream.unused_data, zstandard.ZstdDecompressor().decompressobj()
            if not pending:
                pending = file.read(_FEED)
                if not pending:
                    return
    raise DamagedError("the zstd stream ends early")

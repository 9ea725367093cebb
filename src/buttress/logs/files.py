"""From what the user types to files, and from files to decompressed bytes, in bounded memory."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import zstandard

from buttress.errors import InputError

CHUNK = 512 << 10
HEAD = 64 << 10
HEAD_LIMIT = 16 << 20  # a first line longer than this is not recognised
COMPRESSED = (".gz", ".zst")
PICKLED = (".pkl", ".pickle", ".pt", ".pth")
PICKLE_ADVICE = (
    "pickled dumps are not opened, since loading one can run code: load it in the trainer's own "
    "environment and write JSONL, one object per rollout with the columns step, group, sample, "
    "prompt, completion, reward (and correct, length, truncated, advantage where known)"
)
_SHOWN = 200  # characters of a path that is no path
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = "text in UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8"
_UTF32 = _UTF16.replace("16", "32")
_PACKED = "packed with {0}: unpack it, or pack it again with gzip or zstd"
_FOREIGN = {
    b"PK\x03\x04": "a zip archive: unpack it and name the files in it",
    b"BZh": _PACKED.format("bzip2"),
    b"\xfd7zXZ": _PACKED.format("xz"),
    b"\xff\xfe\0\0": _UTF32,
    b"\0\0\xfe\xff": _UTF32,
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    **{b"\x80" + bytes([version]): PICKLE_ADVICE for version in range(2, 6)},
}
_KNOWN = (b"PAR1", b"SQLite format 3\0", b":W&B")  # binary files that some reader takes
# 4 KiB of zstd are at most 128 MiB of text, however hostile
_FEED = 4 << 10


class _DamagedError(Exception):
    """A compressed stream broke; what came before it has been yielded."""


def expand(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a path means, in natural order: ``9.jsonl`` before ``10.jsonl``.

    A directory means every file below it (hidden ones left out), a pattern every match. Raises
    `InputError` when there is none.
    """
    given = located(path)
    try:
        return _expanded(given, str(given))
    except (OSError, ValueError) as fault:
        if isinstance(fault, InputError):
            raise
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise InputError(f"cannot be read: {str(given)[:_SHOWN]}: {why}") from None


def located(path: str | os.PathLike[str]) -> Path:
    """Return the path that the user means; a tilde without a user belongs to the name."""
    text = os.fspath(path)
    if not text:
        raise InputError("an empty path; for the current directory give a dot")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _expanded(given: Path, text: str) -> list[Path]:
    if given.is_dir():
        return _below(given)
    if given.is_symlink() or given.exists():
        if why := unreadable(given):
            raise InputError(f"{text} cannot be read: {why}")
        return [given]
    if glob.has_magic(text):
        return _matches(text)
    parent = next(one for one in given.parents if one.exists())
    where = f" ({parent} exists)" if parent != Path() else f" (seen from {Path.cwd()})"
    raise InputError(f"no such file or directory: {text}{where}")


def unreadable(path: Path) -> str | None:
    """Return why a path is no file to read, None where it is one; nothing is opened.

    Opening a pipe would wait for its writer.
    """
    try:
        mode = path.stat().st_mode
    except OSError as fault:
        goes = f"a link to {path.readlink()}: " if path.is_symlink() else ""
        return f"{goes}{fault.strerror}"
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "the folder may not be entered"
    return "not a regular file: save the stream to a file first"


def foreign(head: bytes) -> str | None:
    """Return why no reader takes a file that starts so, with what to do; None where one may.

    >>> foreign('{"reward": 1}'.encode("utf-16"))
    'text in UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8'
    """
    if not head.strip() and len(head) < HEAD:
        return "the file is empty" if not head else "the file holds blank lines only"
    if head.startswith(_KNOWN) or b"brain.Event:" in head[:64]:
        return None
    for start, why in _FOREIGN.items():
        if head.startswith(start):
            return why
    if b"\r" in head.strip() and b"\n" not in head and len(head) < HEAD_LIMIT:
        return "its lines end in CR alone: convert it, for example with tr '\\r' '\\n'"
    even, odd = head[:200:2], head[1:200:2]
    if len(head) > 3 and (not odd.strip(b"\0") or not even.strip(b"\0")) and head.strip(b"\0"):
        return _UTF16
    return None


def natural(path: Path) -> list[tuple[bool, int, str]]:
    """Return a sort key that compares runs of digits as numbers."""
    parts = re.split(r"(\d+)", str(path))
    return [(part.isdigit(), int(part) if part.isdecimal() else 0, part) for part in parts]


def whole(path: Path, largest: int) -> bytes:
    """Return all bytes of a file; raises `OSError` beyond a size, since they are held in memory."""
    size = path.stat().st_size
    if size > largest:
        why = f"{size >> 20} MiB, and no more than {largest >> 20} MiB are held in memory"
        raise OSError(errno.EFBIG, why, str(path))
    return path.read_bytes()


def plain_suffix(path: Path) -> str:
    """Return the lower-case suffix, compression left out: ``.jsonl`` of ``a.jsonl.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def plain_stem(path: Path) -> str:
    """Return the name without suffix and compression: ``12`` of ``12.jsonl.gz``."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def head(path: Path) -> bytes:
    """Return the first decompressed bytes: 64 KiB, or more until the first line is whole."""
    start = bytearray()
    with Opened(path) as file:
        while chunk := file.read(HEAD):
            start += chunk
            if b"\n" in chunk or len(start) >= HEAD_LIMIT:
                break
    return bytes(start)


class Opened:
    """A file read through gzip or zstd; compression is told by content, not by name."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        start = self._file.read(4)
        self._file.seek(0)
        self._told = 0
        self._stream: _Unpacked | None = None
        if start.startswith(_GZIP):
            self._stream = _Unpacked(_gunzip(self._file))
        elif start == _ZSTD:
            self._stream = _Unpacked(_unzstd(self._file))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    @property
    def fault(self) -> str:
        """What broke the compressed stream, known at its end; empty when nothing did."""
        return self._stream.fault if self._stream else ""

    @property
    def used(self) -> int:
        """How many bytes, as they lie on disk, were used up."""
        return self._file.tell()

    def advanced(self) -> int:
        """Return how many of them were used up since the last call."""
        before, self._told = self._told, self.used
        return self._told - before

    def fill(self, view: memoryview) -> int:
        """Read until the view is full or the file at its end; return the number of bytes."""
        source, done = self._stream or self._file, 0
        while done < len(view) and (count := source.readinto(view[done:])):
            done += count
        return done

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than `size` at the end of the file."""
        data = bytearray(size)
        return bytes(data[: self.fill(memoryview(data))])


class _Unpacked:
    """Chunks as a stream that ends where the chunks break."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.fault = ""

    def readinto(self, buffer: memoryview) -> int:
        try:
            if not self._rest:
                self._rest = memoryview(next(self._chunks, b""))
        except _DamagedError as fault:
            self.fault = str(fault)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _below(directory: Path) -> list[Path]:
    found, seen, closed = [], set(), []
    for folder, names, files in os.walk(directory, followlinks=True, onerror=closed.append):
        real = os.path.realpath(folder)
        names[:] = [] if real in seen else [name for name in names if not name.startswith(".")]
        if real not in seen:
            found += [Path(folder, name) for name in files if not name.startswith(".")]
        seen.add(real)
    # a folder that may not be entered stands for what is in it
    found = sorted([*found, *(Path(one.filename) for one in closed)], key=natural)
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
            raise _DamagedError(f"the gzip stream is damaged: {fault}") from None
        pending = stream.unconsumed_tail
        if stream.eof:  # another member may follow
            pending, stream = stream.unused_data, zlib.decompressobj(wbits=31)
            if not pending.strip(b"\0"):
                pending = file.read(HEAD)
                if not pending:
                    return
    raise _DamagedError("the gzip stream ends early")


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    stream = zstandard.ZstdDecompressor().decompressobj()
    pending = b""
    while pending or (pending := file.read(_FEED)):
        try:
            if out := stream.decompress(pending):
                yield out
        except zstandard.ZstdError as fault:
            raise _DamagedError(f"the zstd stream is damaged: {fault}") from None
        pending = b""
        if stream.eof:  # another frame may follow
            pending, stream = stream.unused_data, zstandard.ZstdDecompressor().decompressobj()
            if not pending:
                pending = file.read(_FEED)
                if not pending:
                    return
    raise _DamagedError("the zstd stream ends early")

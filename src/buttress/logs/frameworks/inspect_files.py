"""inspect_ai's log files as documents, one per sample, each of a bounded size.

An ``.eval`` is a zip archive: ``header.json`` (``_journal/start.json`` while it is written) and
one entry per sample, packed with zstd, which Python's zipfile does not unpack before 3.14. So
zipfile reads the directory only. What an entry unpacks to is cut off at a limit, whatever size it
claims.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec
import zstandard

from buttress.logs import files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import FAULTS, decoded

if TYPE_CHECKING:
    import zipfile

ENTRY_LIMIT = 256 << 20
_ZIP = b"PK\x03\x04"
_START = b"_journal/start.json"  # the first entry that inspect_ai writes
_SAMPLE = re.compile(r"samples/.*_epoch_\d+(\.json|/sample\.json)", re.DOTALL)
_HEADERS = ("header.json", "_journal/start.json")
_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_LOCAL = struct.Struct("<4s22xHH")  # an entry's own header: signature, lengths of name and extra
_DAMAGED = "the archive is damaged: {}; `inspect log recover` mends an evaluation that was cut off"
_LARGE = "more than {} MiB unpacked"


class Config(msgspec.Struct, frozen=True):
    """How the evaluation was configured."""

    epochs: Any = None


class Spec(msgspec.Struct, frozen=True):
    """Which evaluation it is; a retry keeps the task id."""

    task: Any = None
    task_id: Any = None
    model: Any = None
    config: Config = Config()


class Log(msgspec.Struct, frozen=True):
    """The head of a log."""

    eval: Spec = Spec()


class _Whole(msgspec.Struct):
    eval: Spec
    samples: list[Any] | None = None


class Document(NamedTuple):
    """One sample: its name in the file, its JSON (or what it holds), and the head of its log."""

    name: str
    data: Any
    log: Log


class _EntryError(Exception):
    """An entry of an archive cannot be unpacked."""


def is_archive(path: Path, head: bytes) -> bool:
    """Return whether the first bytes are those of an ``.eval``."""
    named = path.suffix.lower() == ".eval" or head[30 : 30 + len(_START)] == _START
    return named and head.startswith(_ZIP)


def documents(
    path: Path, builder: RolloutBuilder, names: Collection[str] | None = None
) -> Iterator[Document]:
    """Yield the samples of a log (those with the given names); what is broken is a problem."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
            yield from (_packed if start == _ZIP else _plain)(path, builder, names)
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")
    builder.advance(size)


def _packed(
    path: Path, builder: RolloutBuilder, names: Collection[str] | None
) -> Iterator[Document]:
    import zipfile  # this module is loaded for every log, and few are archives

    try:
        with zipfile.ZipFile(path) as archive:
            entries = dict(archive.NameToInfo)  # of entries with one name the last counts
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as fault:
        builder.problem(path, 0, _DAMAGED.format(fault))
        return
    with path.open("rb") as file:
        log = _head(path, file, entries, builder)
        for name, entry in entries.items():
            if not _SAMPLE.fullmatch(name) or not (names is None or name in names):
                continue
            try:
                yield Document(name, _unpacked(file, entry), log)
            except (_EntryError, zlib.error, zstandard.ZstdError) as fault:
                builder.problem(path, 0, f"{name}: {fault}; left out", lost=1)


def _head(
    path: Path, file: BinaryIO, entries: dict[str, zipfile.ZipInfo], builder: RolloutBuilder
) -> Log:
    """Return the head of a log; an empty one where there is none that can be read."""
    for name in _HEADERS:
        if name in entries:
            try:
                return decoded(_unpacked(file, entries[name]), Log)
            except (_EntryError, zlib.error, zstandard.ZstdError, *FAULTS) as fault:
                builder.problem(path, 0, f"{name}: {fault}")
    builder.problem(path, 0, "neither header.json nor _journal/start.json can be read")
    return Log(Spec(task=path.stem))


def _unpacked(file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    """Return an entry of an archive, unpacked."""
    too_large = _EntryError(_LARGE.format(ENTRY_LIMIT >> 20))
    if max(entry.file_size, entry.compress_size) > ENTRY_LIMIT:
        raise too_large
    if entry.flag_bits & 1:
        raise _EntryError("encrypted")
    file.seek(entry.header_offset)
    own = file.read(_LOCAL.size)
    if len(own) < _LOCAL.size or not own.startswith(_ZIP):
        raise _EntryError("not where the archive's directory says")
    _, name, extra = _LOCAL.unpack(own)
    file.seek(name + extra, 1)
    data = _inflated(file.read(entry.compress_size), entry.compress_type)
    if len(data) > ENTRY_LIMIT:
        raise too_large
    if zlib.crc32(data) != entry.CRC:
        raise _EntryError("damaged: the checksum is another")
    return data


def _inflated(data: bytes, method: int) -> bytes:
    """Return packed bytes unpacked, at most one more than the limit."""
    most = ENTRY_LIMIT + 1
    if method == _STORED:
        return data
    if method == _DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, most)
    if method == _ZSTD:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
            return stream.read(most)
    raise _EntryError(f"packed with method {method}, known are stored, deflate and zstd")


def _plain(
    path: Path, builder: RolloutBuilder, names: Collection[str] | None
) -> Iterator[Document]:
    """Yield the samples of a log that is one JSON document."""
    data = bytearray()
    with files.Opened(path) as file:
        while len(data) <= ENTRY_LIMIT and (chunk := file.read(files.CHUNK)):
            data += chunk
        fault = file.fault
    if len(data) > ENTRY_LIMIT:
        advice = "convert it with `inspect log convert --to eval`, which has one entry per sample"
        builder.problem(path, 0, f"a log of {_LARGE.format(ENTRY_LIMIT >> 20)}: {advice}")
        return
    try:
        whole = decoded(bytes(data), _Whole)
    except FAULTS as wrong:
        builder.problem(path, 0, f"not a whole log of inspect_ai: {fault or wrong}")
        return
    for at, sample in enumerate(whole.samples or ()):
        name = f"samples[{at}]"
        if names is None or name in names:
            yield Document(name, sample, Log(whole.eval))

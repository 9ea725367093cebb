"""The files of W&B and TensorBoard as records, each proved by its checksum, in bounded memory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from buttress.logs import files
from buttress.logs.builder import RolloutBuilder

WANDB_START = b":W&B\xe1\xbe\x00"
RECORD_LIMIT = 64 << 20  # bytes; a step's metrics are a few thousand
EVENT_LIMIT = 256 << 10  # a scalar's event has a hundred bytes; images, texts and graphs are larger

_BLOCK, _HEADER = 32 << 10, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_CUT = "ends in the middle of a record (still written, or cut off); what stands before is read"
_DAMAGED = "{} damaged records, left out; the rest is read"


@dataclass
class _Faults:
    """What was wrong with a file, said once at its end."""

    path: Path
    builder: RolloutBuilder
    damaged: int = 0
    said: list[str] = field(default_factory=list)

    def tell(self, file: files.Opened) -> None:
        if self.damaged:
            self.said.append(_DAMAGED.format(self.damaged))
        if file.fault:
            self.said.append(f"{file.fault}; what stands before is read")
        for message in self.said:
            self.builder.problem(self.path, 0, message)


def wandb_records(path: Path, builder: RolloutBuilder) -> Iterator[bytes]:
    """Yield the records of a ``.wandb`` file.

    It starts with 7 bytes and is a LevelDB log: blocks of 32 KiB, in them pieces with a header of
    CRC-32 (of type and data), length and type (whole, first, middle, last piece of a record). After
    damage the reading goes on at the next piece, or at the next block where the header is wrong.
    """
    try:
        with files.Opened(path) as file:
            faults = _Faults(path, builder)
            yield from _joined(_pieces(file, faults, builder), faults)
            faults.tell(file)
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")


def _pieces(
    file: files.Opened, faults: _Faults, builder: RolloutBuilder
) -> Iterator[tuple[int, bytes] | None]:
    """Yield type and data of each piece; None where one is missing."""
    at = len(WANDB_START)
    while block := file.read(_BLOCK):
        builder.advance(file.advanced())
        while len(block) - at >= _HEADER:
            crc, size, kind = struct.unpack_from("<IHB", block, at)
            if not kind and not size:  # the rest of the block is empty
                break
            stop = at + _HEADER + size
            data = block[at + _HEADER : stop]
            if stop > len(block):
                if len(block) < _BLOCK:
                    faults.said.append(_CUT)
                else:
                    faults.damaged += 1
                yield None
                break
            if crc == zlib.crc32(data, zlib.crc32(bytes([kind]))):
                yield kind, data
            else:
                faults.damaged += 1
                yield None
            at = stop
        at = 0


def _joined(pieces: Iterator[tuple[int, bytes] | None], faults: _Faults) -> Iterator[bytes]:
    parts: list[bytes] | None = None
    length = 0
    for piece in pieces:
        kind, data = piece or (0, b"")
        if kind == _FULL:
            parts = None
            yield data
        elif kind == _FIRST:
            parts, length = [data], len(data)
        elif parts is not None and kind in (_MIDDLE, _LAST) and length <= RECORD_LIMIT:
            parts.append(data)
            length += len(data)
            if kind == _LAST:
                yield b"".join(parts)
                parts = None
        else:
            faults.damaged += parts is not None and length > RECORD_LIMIT
            parts = None
    if parts is not None and _CUT not in faults.said:
        faults.said.append(_CUT)


def event_records(path: Path, builder: RolloutBuilder) -> Iterator[bytes]:
    """Yield the records of a TensorBoard event file.

    Each is a length with its masked CRC-32C, the data, and the masked CRC-32C of those. A record
    whose data are damaged is left out; where a length is, nothing tells where the next begins. What
    is too large for metrics is passed over.
    """
    try:
        with files.Opened(path) as file:
            faults = _Faults(path, builder)
            yield from _framed(_Buffered(file, builder), faults)
            faults.tell(file)
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")


def _framed(stream: _Buffered, faults: _Faults) -> Iterator[bytes]:
    start = 0
    while header := stream.take(12):
        if len(header) < 12:
            faults.said.append(_CUT)
            return
        size, check = struct.unpack("<QI", header)
        if masked_crc32c(header[:8]) != check:
            faults.said.append(f"damaged from byte {start} on; what stands before is read")
            return
        start += 16 + size
        if size > EVENT_LIMIT:
            whole = stream.skip(size + 4)
        else:
            data, tail = stream.take(size), stream.take(4)
            whole = len(tail) == 4
            if whole and masked_crc32c(data) == int.from_bytes(tail, "little"):
                yield data
            else:
                faults.damaged += whole
        if not whole:
            faults.said.append(_CUT)
            return


class _Buffered:
    """A file in pieces of any size, read in chunks."""

    def __init__(self, file: files.Opened, builder: RolloutBuilder) -> None:
        self._file, self._builder = file, builder
        self._held, self._at = b"", 0

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end of the file."""
        while len(self._held) - self._at < size and self._more():
            pass
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def skip(self, size: int) -> bool:
        """Pass over bytes; return whether there were as many."""
        while size > len(self._held) - self._at:
            size -= len(self._held) - self._at
            self._at = len(self._held)
            if not self._more():
                return False
        self._at += size
        return True

    def _more(self) -> bool:
        chunk = self._file.read(files.CHUNK)
        self._builder.advance(self._file.advanced())
        self._held, self._at = self._held[self._at :] + chunk, 0
        return bool(chunk)


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _crc32c_table()


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli, RFC 3720) of data, rotated and offset as TFRecord does it.

    >>> hex(masked_crc32c(b"123456789"))  # its CRC-32C is 0xe3069283
    '0xc78ab0e5'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

"""Protocol buffers as they lie on disk: numbered fields, without a schema.

Trackers keep protobuf records. The wire format is five rules and the field numbers of a published
message never change, so that a run can be read without the tracker's package (80 MB for W&B, 130 MB
for TensorBoard).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_LONGEST = 10  # bytes of a varint


class WireError(ValueError):
    """The bytes are no protobuf message."""


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field of a message.

    A varint is an int, everything else the bytes of it. Raises `WireError` where the message
    breaks; never reads beyond its end.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02]) + b"hi"))
    [(1, 0, 150), (2, 2, b'hi')]
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at) if data[at] > 0x7F else (data[at], at + 1)
        kind = key & 7
        if kind == BYTES and at < end and data[at] < 0x80:  # by far most fields
            size, at = data[at], at + 1
        elif kind == BYTES:
            size, at = _varint(data, at)
        elif kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, kind, value
            continue
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise WireError(f"wire type {kind}")
        stop = at + size
        if stop > end:
            raise WireError("a field ends beyond its message")
        yield key >> 3, kind, data[at:stop]
        at = stop


def messages(data: bytes, number: int) -> Iterator[bytes]:
    """Yield each message, text or packed list that stands under a field number."""
    for found, kind, value in fields(data):
        if found == number and kind == BYTES:
            assert isinstance(value, bytes)
            yield value


def text(data: bytes) -> str:
    """Return a field as text; what is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")


def signed(value: int) -> int:
    """Return a varint as the signed number that it stands for.

    >>> signed(2**64 - 1)
    -1
    """
    return value - (1 << 64) if value >> 63 else value


def floats(data: bytes, kind: str) -> list[float]:
    """Return packed little-endian numbers, ``f`` or ``d``; a torn last one is left out."""
    size = struct.calcsize(kind)
    return [one for (one,) in struct.iter_unpack(f"<{kind}", data[: len(data) // size * size])]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + _LONGEST]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise WireError("a number does not end")

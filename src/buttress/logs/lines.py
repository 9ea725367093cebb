"""A text file as blocks of whole lines, with line numbers, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.logs import files
from buttress.logs.builder import RolloutBuilder

LINE_LIMIT = 64 << 20
SMALL = 4 << 10


class Block(NamedTuple):
    """Whole lines of a file."""

    first: int  # number of its first line, from 1
    data: bytes
    torn: bool  # the last line has no end: the file may have been cut off there


def blocks(
    path: Path, builder: RolloutBuilder | None = None, size: int = files.CHUNK
) -> Iterator[Block]:
    """Yield the lines of a file in blocks of about `size` bytes.

    A line beyond 64 MiB is left out. That, a damaged stream and a file that cannot be opened are
    problems of the builder (if there is one); what could be read before is yielded.
    """
    pending: list[bytes] = []  # the start of a line, or of a block
    held, line, skipping = 0, 1, False
    for chunk in _readable(path, builder):
        if skipping:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            line, skipping = line + 1, False
        pending.append(chunk)
        held += len(chunk)
        if held < size:
            continue
        data = b"".join(pending)
        cut = data.rfind(b"\n") + 1
        if cut:
            yield Block(line, data[:cut], torn=False)
            line += data.count(b"\n", 0, cut)
        elif held > LINE_LIMIT:
            if builder:
                message = f"a line of more than {LINE_LIMIT >> 20} MiB, left out"
                builder.problem(path, line, message, lost=1)
            cut, skipping = held, True
        pending = [data[cut:]]
        held -= cut
    data = b"".join(pending)
    if data:
        yield Block(line, data, torn=not data.endswith(b"\n"))


def _readable(path: Path, builder: RolloutBuilder | None) -> Iterator[bytes]:
    try:
        yield from files.chunks(path, advance=builder.advance if builder else None)
    except files.DamagedError as fault:
        if builder:
            builder.problem(path, 0, f"{fault}; what stands before is read")
    except OSError as fault:
        if builder:
            builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")


def count_lines(data: bytes) -> int:
    """Return the number of lines; the last one counts without its end too."""
    ends = int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))
    return ends + (data[-1:] not in (b"", b"\n"))


def valid_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8, without building the text where few are beyond ASCII.

    >>> valid_utf8("π".encode()), valid_utf8("é".encode("latin-1"))
    (True, False)
    """
    if data.isascii():
        return True
    if len(data) > SMALL:
        octets = np.frombuffer(data, dtype=np.uint8)
        high = np.flatnonzero(octets >= 0x80)
        if len(high) * 8 < len(octets):
            return _valid_high(octets[high], high)
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _valid_high(octets: NDArray[np.uint8], place: NDArray[np.intp]) -> bool:
    """Return whether each lead byte is followed by as many continuation bytes as it announces."""
    lead = octets >= 0xC0
    follow = np.where(octets >= 0xE0, np.where(octets >= 0xF0, 3, 2), 1)[lead]
    starts = np.flatnonzero(lead)
    sizes = np.diff(np.append(starts, len(octets)))
    if not lead[0] or (octets > 0xF4).any() or not np.array_equal(sizes, follow + 1):
        return False
    return bool((place[starts + follow] - place[starts] == follow).all())

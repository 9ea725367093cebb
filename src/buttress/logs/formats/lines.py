"""A text file as blocks of whole lines, with line numbers, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from buttress.logs import files
from buttress.logs.builder import RolloutBuilder

LINE_LIMIT = 64 << 20
MANY = 16 << 10  # bytes that are worth a call of Polars
# Rollouts differ from each other; a few bytes that unfold into lines without an end do not.
MOST_LINES, LINES_PER_BYTE = 1 << 20, 16
WINDOWS = (4 << 10, 64 << 10)  # in which lines are looked for
_BOMB = (
    "{:,} lines in {:,} packed bytes: lines that all repeat each other, or a file made to take for "
    "ever; not read further. If it is sound, unpack it"
)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file; `data` is good until the next block is asked for."""

    first: int  # number of its first line, from 1
    data: memoryview
    count: int
    torn: bool  # the last line has no end: the file may have been cut off there
    picked: NDArray[np.int32] | None = None  # line numbers, where they do not follow each other

    def __len__(self) -> int:
        return self.count

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """Where each line ends."""
        ends = np.flatnonzero(_line_feeds(self.data))
        return ends if len(ends) == self.count else np.append(ends, len(self.data))

    def line(self, at: int) -> bytes:
        """Return a line by its place in the block, from 0."""
        start = self.ends[at - 1] + 1 if at else 0
        return bytes(self.data[start : self.ends[at]])

    def near(self, share: float) -> bytes:
        """Return a line by its place in the bytes, 0 to 1, if possible without finding them all."""
        for window in WINDOWS:
            line = self._last(window) if share == 1 else self._around(share, window)
            if line is not None:
                return line
        return self.line(min(int(share * self.count), self.count - 1))

    def _last(self, window: int) -> bytes | None:
        end = bytes(self.data[-window:]).removesuffix(b"\n")
        found = end.rfind(b"\n") + 1
        return end[found:] if found else None

    def _around(self, share: float, window: int) -> bytes | None:
        start = int(share * len(self.data))
        text = bytes(self.data[start : start + window])
        begin = text.find(b"\n") + 1 if start else 0
        end = text.find(b"\n", begin)
        return text[begin:end] if end >= 0 and (begin or not start) else None

    def numbers(self) -> NDArray[np.int32]:
        """Return the number of each line."""
        if self.picked is not None:
            return self.picked
        return np.arange(self.first, self.first + len(self), dtype=np.int32)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and text of the lines that are not blank."""
        if bytes(self.data).isspace():
            return
        for at, number in enumerate(self.numbers().tolist()):
            if (line := self.line(at)) and not line.isspace():
                yield number, line

    def pick(self, places: list[int]) -> Block:
        """Return some lines, by their places in ascending order, as a block of their own."""
        lines = [self.line(at) for at in places]
        numbers = self.numbers()[places]
        torn = self.torn and places[-1] == len(self) - 1
        data = memoryview(b"\n".join(lines))
        return Block(int(numbers[0]), data, len(lines), torn, numbers)


def blocks(
    path: Path, builder: RolloutBuilder | None = None, *, limit: int | None = None
) -> Iterator[Block]:
    """Yield the lines of a file in blocks of about half a megabyte.

    A line beyond the limit (64 MiB by default) is left out. That, a damaged stream, one of very
    many lines in few bytes and a file that cannot be opened are problems of the builder (if there
    is one); what could be read before is yielded.
    """
    builder = builder or RolloutBuilder()
    try:
        with files.Opened(path) as file:
            yield from _blocks(file, path, builder, limit or LINE_LIMIT)
            if file.fault:
                builder.problem(path, 0, f"{file.fault}; what stands before is read")
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")


def _blocks(file: files.Opened, path: Path, builder: RolloutBuilder, limit: int) -> Iterator[Block]:
    # one buffer for the whole file: fresh memory for each block costs more than reading it
    buffer = bytearray(files.CHUNK)
    view = memoryview(buffer)
    line, held, endless = 1, 0, False
    while count := file.fill(view[held:]):
        builder.advance(file.advanced())
        end, start = held + count, 0
        if endless:
            start = buffer.find(b"\n", 0, end) + 1
            if not start:
                continue
            line, endless = line + 1, False
        cut = buffer.rfind(b"\n", start, end) + 1
        if cut:
            lines = int(np.count_nonzero(_line_feeds(view[start:cut])))
            yield Block(line, view[start:cut], lines, torn=False)
            line += lines
            # never of a plain file, where a line has a byte at least
            if line > max(MOST_LINES, LINES_PER_BYTE * file.used):
                builder.problem(path, line, _BOMB.format(line - 1, file.used))
                return
            held = _moved(view, cut, end)
            continue
        held = _moved(view, start, end)
        if held > limit:
            message = f"a line of more than {limit >> 20} MiB, left out"
            builder.problem(path, line, message, lost=1)
            held, endless = 0, True
        elif held == len(buffer):
            buffer = buffer + bytearray(held)
            view = memoryview(buffer)
    if held and not endless:
        yield Block(line, view[:held], 1, torn=True)


def _line_feeds(data: memoryview) -> NDArray[np.bool_]:
    return np.frombuffer(data, dtype=np.uint8) == 10


def _moved(view: memoryview, start: int, end: int) -> int:
    """Move the start of a line to the front and return its length."""
    view[: end - start] = view[start:end]
    return end - start


def valid_utf8(data: bytes | memoryview) -> bool:
    """Return whether bytes are UTF-8.

    >>> valid_utf8("π".encode()), valid_utf8("é".encode("latin-1"))
    (True, False)
    """
    if len(data) < MANY:
        try:
            str(data, "utf-8")
        except UnicodeDecodeError:
            return False
        return True
    if np.frombuffer(data, dtype=np.uint8).max() < 0x80:
        return True
    try:  # looks at many bytes at once
        pl.Series([bytes(data)], dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:
        return False
    return True

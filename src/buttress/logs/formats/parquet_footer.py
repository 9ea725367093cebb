"""How large a Parquet file is unpacked, as its footer says: known before a byte is unpacked.

The footer is a `FileMetaData` in Thrift's compact protocol (parquet-format, parquet.thrift). Polars
shows neither it nor the size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ROW_GROUPS, _TOTAL_BYTE_SIZE = 4, 2  # of FileMetaData, of RowGroup
_TAIL = 8  # the length of the footer, and PAR1
_LONG = 4 << 20  # bytes of a footer beyond which it is left alone
_DEEP = 16  # values in each other; the format has twelve
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12


def unpacked_size(path: Path) -> int | None:
    """Return the bytes of all row groups before compression, None where no footer says so."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - _TAIL))
            length = int.from_bytes(file.read(4), "little")
            if file.read(4) != b"PAR1" or length > min(end - _TAIL, _LONG):
                return None
            file.seek(end - _TAIL - length)
            footer = _Compact(file.read(length)).struct()
        return sum(max(0, group[_TOTAL_BYTE_SIZE]) for group in footer[_ROW_GROUPS])
    except (OSError, LookupError, TypeError, ValueError):
        return None


class _Compact:
    """Reads values of Thrift's compact protocol; raises `LookupError` or `ValueError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._octet():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            # a boolean field has its value in its type
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEP:
            raise ValueError("values too deep in each other")
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self._octet()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind == _DOUBLE:
            return self._skip(8)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._octet()
        if kind < _DOUBLE:
            return self._signed()
        raise ValueError(f"no type {kind} in a footer")  # maps among them

    def _octet(self) -> int:
        octet = self._data[self._at]
        self._at += 1
        return octet

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            octet = self._octet()
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                return value
        raise ValueError("a number without an end")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("the footer ends early")

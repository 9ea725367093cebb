"""Texts of a log as codes and fingerprints: compared and counted, never kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import compress
from operator import ne
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

_STRINGS: msgspec.json.Decoder[list[str | None]] = msgspec.json.Decoder(list[str | None])


class JsonTexts(NamedTuple):
    """Texts as they stand in JSON, quotes and escapes included; ``null`` is unknown."""

    items: list[Any]  # bytes, or parts of a buffer that is good only now


def json_text(item: bytes) -> str | None:
    """Return the text of a JSON value; what is broken is shown as it stands."""
    if item[-1:] == b'"' and b"\\" not in item:
        return item[1:-1].decode("utf-8", "replace")
    try:
        return text_of(msgspec.json.decode(item))
    except (msgspec.MsgspecError, RecursionError):
        return item.decode("utf-8", "replace")


def json_texts(items: list[bytes]) -> list[str | None]:
    """Return the text of each JSON value, of many faster than one by one."""
    try:
        return _STRINGS.decode(b"[%b]" % b",".join(items))
    except msgspec.MsgspecError:
        return [json_text(item) for item in items]


class Interned:
    """Gives each distinct text of a column a code; -1 is unknown.

    Of prompts only a hash is kept, so that a run of any size stays small.
    """

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self._code: dict[str, int] = {}  # by label
        # by the text's hash (by the identity itself), and by the hash of its JSON
        self._seen: dict[Any, int] = {hash(None) if texts else None: -1}
        self._json: dict[int, int] = {hash(b"null"): -1}

    @property
    def labels(self) -> list[str]:
        """The identities that the codes stand for."""
        return list(self._code)

    def merged(self, labels: Sequence[str]) -> NDArray[np.int32]:
        """Return the codes of another one's labels, the code of unknown behind them."""
        codes = [self._code.setdefault(label, len(self._code)) for label in labels]
        if not self._texts:
            self._seen.update(zip(labels, codes, strict=True))
        return np.array([*codes, -1], dtype=np.int32)

    def codes(self, column: Any) -> NDArray[np.int32]:
        """Return the codes of a column: list of texts and None, or codes into labels."""
        if hasattr(column, "labels"):
            table = np.append(self.codes(list(column.labels)), np.int32(-1))
            return table[np.asarray(column.codes)]
        encoded = isinstance(column, JsonTexts)
        items = column.items if encoded else column
        items = items.tolist() if hasattr(items, "tolist") else items
        # rows of a group stand together, and to compare is faster than to hash
        starts = [0, *compress(range(1, len(items)), map(ne, items[1:], items))] if items else []
        firsts = [items[at] for at in starts]
        codes = self._encoded_codes(firsts) if encoded else self._plain_codes(firsts)
        return np.repeat(codes, np.diff(np.array([*starts, len(items)], dtype=np.int64)))

    def _encoded_codes(self, parts: list[Any]) -> NDArray[np.int32]:
        items = list(map(bytes, parts))
        return self._looked_up(self._json, list(map(hash, items)), items, json_texts)

    def _plain_codes(self, items: list[Any]) -> NDArray[np.int32]:
        try:
            keys = list(map(hash, items)) if self._texts else items
            return self._looked_up(self._seen, keys, items, texts_of)
        except TypeError:  # lists and mappings have no hash
            return self._plain_codes(texts_of(items))

    def _looked_up(
        self,
        known: dict[Any, int],
        keys: list[Any],
        items: list[Any],
        texts: Callable[[list[Any]], list[str | None]],
    ) -> NDArray[np.int32]:
        found = list(map(known.get, keys))
        if None in found:
            new = {
                key: item
                for key, item, code in zip(keys, items, found, strict=True)
                if code is None
            }
            known.update(zip(new, self._codes_of(texts(list(new.values()))), strict=True))
            found = list(map(known.__getitem__, keys))
        return np.array(found, dtype=np.int32)

    def _codes_of(self, texts: list[str | None]) -> list[int]:
        labels = texts
        if self._texts:
            labels = [one if one is None else text_digest(one) for one in texts]
        code = self._code
        return [-1 if one is None else code.setdefault(one, len(code)) for one in labels]


def fingerprints(column: Any) -> NDArray[np.int64]:
    """Return a 64-bit hash per text, equal for equal texts of this process; unknown equals none."""
    if hasattr(column, "dtype") and column.dtype.kind in "iu":
        return column.astype(np.int64)
    if isinstance(column, JsonTexts):
        hashes = np.fromiter(map(hash, map(bytes, column.items)), np.int64, len(column.items))
        missing = np.flatnonzero(hashes == hash(b"null"))
        hashes[missing] = unknown_fingerprints(len(missing))
        return hashes
    column = column.tolist() if hasattr(column, "tolist") else column
    try:
        hashes = np.fromiter(map(hash, column), dtype=np.int64, count=len(column))
    except TypeError:
        return fingerprints(texts_of(column))
    missing = [at for at, one in enumerate(column) if one is None] if None in column else []
    hashes[missing] = unknown_fingerprints(len(missing))
    return hashes


# How many texts were unknown so far; another process starts elsewhere.
_unknown = 0


def start_unknown(at: int) -> None:
    """Let the unknown texts of this process differ from those of others."""
    global _unknown
    _unknown = at


def unknown_fingerprints(count: int) -> NDArray[np.int64]:
    """Return hashes that equal no other: a text that is not known repeats nothing."""
    global _unknown
    first, _unknown = _unknown, _unknown + count
    return np.fromiter((hash((at, "unknown")) for at in range(first, _unknown)), np.int64, count)


def text_of(value: Any) -> str | None:
    """Return a value as text: chat messages become their contents, a whole float an integer.

    Unknown where lists are nested as no message is, hundreds deep: parsers take more than Python.

    >>> text_of([{"role": "user", "content": "1 + 1?"}])
    '1 + 1?'
    """
    try:
        return _text_of(value)
    except RecursionError:
        return None


def texts_of(values: Sequence[Any]) -> list[str | None]:
    """Return each value as text."""
    return [value if type(value) is str else text_of(value) for value in values]


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return None if math.isnan(value) else f"{value:.17g}"
    if isinstance(value, Sequence):
        return "\n".join(filter(None, map(_message, value)))
    if hasattr(value, "tolist"):
        return _text_of(value.tolist())
    return _message(value)


def text_digest(text: str) -> str:
    """Return the stable short identity of a prompt's text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _message(value: Any) -> str | None:
    if isinstance(value, dict):
        if "content" in value:
            return _text_of(value["content"])
        if "text" in value:
            return _text_of(value["text"])
        return json.dumps(value, sort_keys=True, default=str)
    return _text_of(value) if isinstance(value, str | float | list | tuple | None) else str(value)

"""Identities of groups, prompts and steps as small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups.arrays import missing, object_array, to_numpy

_FEW = 1024  # identities that are looked up faster than compared with their neighbours


def codes_of(ids: Any, name: str = "ids") -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return ``(codes, labels)``: codes number the identities in order of first appearance.

    Identities are equal as Python compares them. A missing one (None, NaN) gets the code -1.

    Examples
    --------
    >>> codes, labels = codes_of(["b", "a", None, "b"])
    >>> codes.tolist(), labels.tolist()
    ([0, 1, -1, 0], ['b', 'a'])
    """
    if type(ids) is list and 0 < len(ids) <= _FEW and set(map(type, ids)) == {str}:
        return _few_texts(ids)
    array = _identities(ids, name)
    if not len(array):
        return np.zeros(0, dtype=np.int64), array
    try:
        # rows of one group mostly follow each other: look at the head of each run only
        array, starts = _runs(array)
        heads = array if len(starts) == len(array) else array[starts]
        codes, labels = _number(heads) if heads.dtype.kind in "biuf" else _hash(heads)
    except (TypeError, ValueError) as fault:
        raise UsageError(f"{name} must be hashable: text, numbers or tuples ({fault})") from None
    if len(codes) < len(array):
        codes = np.repeat(codes, np.diff(starts, append=len(array)))
    return codes, labels


def stable_order(codes: NDArray[np.int64], n_codes: int) -> NDArray[np.int64]:
    """Return the stable sorting order of codes in ``range(n_codes)``."""
    if len(codes) < 2 or (codes[1:] >= codes[:-1]).all():
        return np.arange(len(codes), dtype=np.int64)
    return _sorted(codes, n_codes)[0]


def pair_codes(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one code per distinct pair, in order of first appearance."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    left, right = _from_zero(first), _from_zero(second)
    return codes_of(left * (int(right.max()) + 1) + right)[0]


def _from_zero(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    low, high = int(numbers.min()), int(numbers.max())
    return numbers - low if high - low < 2**31 else codes_of(numbers)[0]


def _sorted(codes: NDArray[np.int64], n_codes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the stable order of codes in ``range(n_codes)``, and the codes in that order."""
    bits = len(codes).bit_length()
    if n_codes >= 1 << (62 - bits):
        order = np.argsort(codes, kind="stable")
        return order, codes[order]
    # sorting plain integers is several times as fast as an argsort
    key = (codes << bits) | np.arange(len(codes))
    key.sort()
    return key & ((1 << bits) - 1), key >> bits


def _runs(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the identities and where each run of equal ones starts."""
    try:
        change = array[1:] != array[:-1]
    except (TypeError, ValueError):  # the NA of pandas equals nothing and differs from nothing
        array = object_array(None if missing(one) else one for one in array)
        change = array[1:] != array[:-1]
    return array, np.flatnonzero(np.concatenate(([True], change)))


def _identities(ids: Any, name: str) -> NDArray[Any]:
    """Return identities as a one-dimensional array of numbers or of objects."""
    if isinstance(ids, str | bytes) or not hasattr(ids, "__len__"):
        raise UsageError(f"{name} must be a list or an array of identities; got {ids!r}")
    plain = isinstance(ids, list | tuple) and ids and type(ids[0]) is not int
    if hasattr(ids, "__array__") or (not plain and set(map(type, ids)) == {int}):
        array = to_numpy(ids)
    else:
        array = object_array(ids)
    if array.ndim != 1:
        raise UsageError(f"{name} has shape {array.shape}; expected one identity per entry")
    if array.dtype.kind not in "biufO":
        array = object_array(array.tolist())
    return array


def _few_texts(ids: list[str]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    labels = dict.fromkeys(ids)
    if len(labels) == len(ids):
        return np.arange(len(ids)), object_array(ids)
    code = dict(zip(labels, range(len(labels)), strict=True))
    return np.fromiter(map(code.__getitem__, ids), np.int64, len(ids)), object_array(labels)


def _number(heads: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    known = heads == heads
    if not known.all():
        codes = np.full(len(heads), -1, dtype=np.int64)
        codes[known], labels = _number(heads[known])
        return codes, labels
    if (heads[1:] > heads[:-1]).all():
        return np.arange(len(heads)), heads
    low = heads.min()
    span = int(heads.max()) - int(low) if heads.dtype.kind in "iu" else 2**62
    if span < 2**61:
        order, ascending = _sorted((heads - low).astype(np.int64), span + 1)
    else:
        order = np.argsort(heads, kind="stable")
        ascending = heads[order]
    new = np.concatenate(([True], ascending[1:] != ascending[:-1]))
    first = order[new]
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(first))
    codes = np.empty(len(heads), dtype=np.int64)
    codes[order] = rank[np.cumsum(new) - 1]
    return codes, heads[first[by_appearance]]


def _hash(heads: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    items = heads.tolist()
    labels = distinct = list(dict.fromkeys(items))
    if set(map(type, distinct)) != {str}:
        labels = [label for label in distinct if not missing(label)]
    if len(labels) == len(items):
        return np.arange(len(items)), heads
    code = dict.fromkeys(distinct, -1) if len(labels) < len(distinct) else {}
    code.update(zip(labels, range(len(labels)), strict=True))
    return np.fromiter(map(code.__getitem__, items), np.int64, len(items)), object_array(labels)

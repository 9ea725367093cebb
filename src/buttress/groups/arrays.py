"""From what people hold (lists, NumPy, torch, frames) to arrays."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError


def to_numpy(values: Any) -> NDArray[Any]:
    """Return values as NumPy; a torch tensor is detached and moved to the CPU.

    A masked entry of a NumPy masked array becomes NaN. Raises `UsageError` on ragged input.
    """
    if hasattr(values, "mask") and hasattr(values, "filled"):
        return np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        try:
            return values.numpy()
        except TypeError:  # NumPy has no bfloat16
            return values.float().numpy()
    if isinstance(values, list | tuple) and values and hasattr(values[0], "detach"):
        values = [to_numpy(value) for value in values]
    try:
        return np.asarray(values)
    except ValueError:
        raise UsageError("expected a rectangular array; the rows differ in length") from None


def reward_array(values: Any) -> Any:
    """Return rewards as NumPy numbers, or as they are where another array library owns them."""
    foreign = hasattr(values, "detach") or hasattr(values, "__array_namespace__")
    if foreign and not isinstance(values, np.ndarray):
        return values
    array = to_numpy(values)
    return array if array.dtype.kind in "biuf" else as_float64(array, "rewards")


def as_float64(values: Any, name: str = "rewards and columns") -> NDArray[np.float64]:
    """Return float64 on the CPU; ``None`` becomes NaN. Raises `UsageError` on what is no number."""
    array = to_numpy(values)
    if array.dtype == np.float64:
        return array
    # V: the bfloat16 of other libraries
    try:
        if array.dtype.kind in "biufV" or _holds_numbers(array):
            return array.astype(np.float64)
        numbers = [_number(value, name, place) for place, value in enumerate(array.flat)]
    except OverflowError:
        raise UsageError(f"{name} hold an integer beyond the range of a float") from None
    return np.array(numbers, dtype=np.float64).reshape(array.shape)


def column_array(values: Any, name: str) -> NDArray[Any]:
    """Return a per-sample column: numbers as they are, numbers with None as float64.

    Texts and other objects stay objects: a NumPy text array would pad each to the longest.
    """
    if isinstance(values, list | tuple):
        array = object_array(values)
        if _holds_numbers(array):
            array = np.asarray(values)
    else:
        array = to_numpy(values)
    if array.ndim != 1:
        raise UsageError(f"{name} has shape {array.shape}; expected one value per sample")
    return as_float64(array, name) if array.dtype == object and _holds_numbers(array) else array


def object_array(values: Any) -> NDArray[Any]:
    """Return a one-dimensional object array, also of tuples and lists."""
    items = list(values)
    return np.fromiter(items, dtype=object, count=len(items))


def step_array(step: Any) -> NDArray[np.int64]:
    """Return training steps as int64, of no or one dimension. Raises `UsageError` on fractions."""
    array = to_numpy(step)
    if array.ndim > 1:
        raise UsageError(f"step has shape {array.shape}; expected one number, or one per group")
    if array.dtype.kind not in "iu":
        array = as_float64(array, "step")
        if not (np.isfinite(array) & (array == np.round(array))).all():
            raise UsageError("step must be whole numbers; it holds fractions, NaN or None")
    return array.astype(np.int64)


def namespace(values: Any) -> Any:
    """Return the array library of these values."""
    if isinstance(values, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(values)


def take(values: Any, index: NDArray[np.int64]) -> Any:
    """Return ``values[index]`` in the array library of the values; gradient flows."""
    if isinstance(values, np.ndarray):
        return values[index]
    from array_api_compat import device

    xp = namespace(values)
    return xp.take(values, xp.asarray(index, device=device(values)), axis=0)


def missing(one: Any) -> bool:
    """Return whether a value stands for nothing: None, NaN, NaT or pandas' NA."""
    try:
        return one is None or bool(one != one)
    except (TypeError, ValueError):
        return type(one).__name__ == "NAType"


def _holds_numbers(array: NDArray[Any]) -> bool:
    """Return whether an object array holds nothing but numbers and None."""
    kinds = set(map(type, array.flat)) if array.dtype == object else {str}
    return all(issubclass(kind, Real | np.bool_ | type(None)) for kind in kinds)


def _number(value: Any, name: str, place: int) -> float:
    if missing(value):
        return float(np.nan)
    try:
        if not isinstance(value, str | bytes | np.complexfloating | complex):
            return float(value)
    except (TypeError, ValueError):
        pass
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:40] + "..."
    raise UsageError(f"{name} must be numbers or None; got {shown} at position {place}")

"""From what people have (nested lists, flat rows, dense arrays) to the parts of `Groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError

Parts = dict[str, Any]


def nested(rewards: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]) -> Parts:
    """Return the parts of groups given as a list of lists."""
    rows = [list(row) for row in rewards]
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    values = as_float64([value for row in rows for value in row])
    flat_columns = {name: _flatten(name, column, sizes) for name, column in columns.items()}
    return _parts(values, sizes, prompt_id=prompt_id, step=step, columns=flat_columns)


def dense(rewards: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]) -> Parts:
    """Return the parts of groups given as an array of shape ``(group, sample)``."""
    array = rewards if hasattr(rewards, "ndim") else as_float64(rewards)
    if array.ndim != 2:
        raise UsageError(
            f"from_dense needs an array of shape (group, sample); got {array.ndim} dimension(s). "
            "Use from_nested for ragged lists, from_flat for rows with ids"
        )
    n_groups, size = array.shape
    flat_columns = {}
    for name, column in columns.items():
        values = np.asarray(column) if not hasattr(column, "ndim") else column
        if tuple(values.shape) != (n_groups, size):
            raise UsageError(
                f"column {name!r} has shape {tuple(values.shape)}; expected {(n_groups, size)}"
            )
        flat_columns[name] = to_numpy(values).reshape(-1)
    sizes = np.full(n_groups, size, dtype=np.int64)
    return _parts(array.reshape(-1), sizes, prompt_id=prompt_id, step=step, columns=flat_columns)


def flat(
    rewards: Any, group_ids: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]
) -> Parts:
    """Return the parts of groups given as rows with group ids, in any order."""
    values = rewards if hasattr(rewards, "ndim") else as_float64(rewards)
    n_rows = len(values)
    if values.ndim != 1:
        raise UsageError(f"from_flat needs one reward per row; got shape {tuple(values.shape)}")
    ids = codes_of(group_ids)[0]
    _check_length("group_ids", ids, n_rows)
    row_step = to_numpy(step)
    if row_step.ndim == 1 and len(row_step) == n_rows:
        ids = codes_of(ids * (int(row_step.max(initial=0)) + 1) + row_step)[0]
    n_groups = int(ids.max(initial=-1)) + 1
    sizes = np.bincount(ids, minlength=n_groups)
    order = _stable_order(ids)
    offsets = offsets_of(sizes)
    first = order[offsets[:-1]]
    labels = to_numpy(group_ids) if hasattr(group_ids, "dtype") else object_array(group_ids)

    per_row: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        _check_length(name, column, n_rows)
        per_row[name] = column_array(column)
    group_prompt = prompt_id
    if prompt_id is not None and len(prompt_id) == n_rows:
        codes, prompt_names = codes_of(prompt_id)
        per_row["prompt"] = codes
        group_prompt = [prompt_names[code] for code in codes[first]]
    if row_step.ndim == 1 and len(row_step) == n_rows:
        step = row_step[first]
    parts = _parts(
        values if _is_sorted(order) else values[order],
        sizes,
        prompt_id=group_prompt,
        step=step,
        columns={name: column[order] for name, column in per_row.items()},
    )
    parts["order"] = order
    parts["group_id"] = labels[first]
    return parts


def _parts(
    values: Any,
    sizes: NDArray[np.int64],
    *,
    prompt_id: Any,
    step: Any,
    columns: dict[str, NDArray[Any]],
) -> Parts:
    n_groups = len(sizes)
    steps = to_numpy(step).astype(np.int64)
    if steps.ndim == 0:
        steps = np.full(n_groups, steps, dtype=np.int64)
    _check_length("step", steps, n_groups)
    if prompt_id is None:
        prompt, labels = np.full(n_groups, -1, dtype=np.int64), np.array([], dtype=object)
    else:
        _check_length("prompt_id", prompt_id, n_groups)
        prompt, labels = codes_of(prompt_id)
    return {
        "values": values,
        "offsets": offsets_of(sizes),
        "order": np.arange(int(sizes.sum()), dtype=np.int64),
        "step": steps,
        "group_id": np.arange(n_groups),
        "prompt": prompt,
        "prompt_labels": labels,
        "columns": columns,
    }


def codes_of(ids: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return ``(codes, labels)``: codes number the identities in order of first appearance.

    ``None`` (and NaN among floats) gets the code -1.
    """
    if hasattr(ids, "dtype") and to_numpy(ids).dtype.kind in "iub":
        array = to_numpy(ids)
        labels, first, inverse = np.unique(array, return_index=True, return_inverse=True)
        by_appearance = np.argsort(first, kind="stable")
        rank = np.empty_like(by_appearance)
        rank[by_appearance] = np.arange(len(labels))
        return rank[inverse].astype(np.int64), labels[by_appearance]
    seen: dict[Any, int] = {}
    codes = np.fromiter(
        (-1 if _missing(one) else seen.setdefault(one, len(seen)) for one in _items(ids)),
        dtype=np.int64,
    )
    return codes, object_array(seen)


def sample_index(offsets: NDArray[np.int64], groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return the samples of the named groups, group after group."""
    sizes = np.diff(offsets)[groups]
    starts = offsets[:-1][groups]
    return np.repeat(starts - offsets_of(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))


def offsets_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ``(group + 1,)`` boundaries of groups of these sizes."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def as_float64(values: Any) -> NDArray[np.float64]:
    """Return float64 on the CPU; ``None`` becomes NaN. Raises `UsageError` on text."""
    array = to_numpy(values)
    if array.dtype == np.float64:
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as fault:
        raise UsageError(f"rewards and columns must be numbers or None: {fault}") from None


def to_numpy(values: Any) -> NDArray[Any]:
    """Return values as NumPy; a torch tensor is detached and moved to the CPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no bfloat16
        values = values.float() if "bfloat16" in str(values.dtype) else values
        return values.numpy()
    return np.asarray(values)


def column_array(values: Any) -> NDArray[Any]:
    """Return a per-sample column: numbers as they are, numbers with None as float64, text as is."""
    array = to_numpy(values)
    if array.dtype == object and not any(isinstance(value, str) for value in array):
        return as_float64(array)
    return array


def object_array(values: Any) -> NDArray[Any]:
    """Return a one-dimensional object array, also of tuples and lists."""
    items = list(values)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _flatten(name: str, column: Any, sizes: NDArray[np.int64]) -> NDArray[Any]:
    rows = list(column)
    if rows and isinstance(rows[0], Sequence | np.ndarray) and not isinstance(rows[0], str):
        if [len(row) for row in rows] != sizes.tolist():
            raise UsageError(f"column {name!r} must have the shape of the rewards")
        rows = [value for row in rows for value in row]
    _check_length(name, rows, int(sizes.sum()))
    return column_array(rows)


def _check_length(name: str, values: Any, expected: int) -> None:
    if len(values) != expected:
        raise UsageError(f"{name} has {len(values)} entries; expected {expected}")


def _stable_order(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(ids) < 2 or (ids[1:] >= ids[:-1]).all():
        return np.arange(len(ids), dtype=np.int64)
    return np.argsort(ids, kind="stable")


def _is_sorted(order: NDArray[np.int64]) -> bool:
    return bool((order == np.arange(len(order))).all())


def _missing(one: Any) -> bool:
    return one is None or one != one


def _items(ids: Any) -> Any:
    return ids.tolist() if hasattr(ids, "tolist") else ids

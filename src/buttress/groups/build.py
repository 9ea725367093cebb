"""From nested lists, flat rows and dense arrays to the parts of `Groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups.arrays import (
    as_float64,
    column_array,
    namespace,
    object_array,
    reward_array,
    step_array,
    take,
    to_numpy,
)
from buttress.groups.identity import codes_of, stable_order

Parts = dict[str, Any]
Columns = dict[str, NDArray[Any]]


def nested(rewards: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]) -> Parts:
    """Return the parts of groups given as a list of lists."""
    rows = _list("the rewards", rewards)
    sizes = np.array([_size(row, place) for place, row in enumerate(rows)], dtype=np.int64)
    values = _chain(rows)
    if tuple(values.shape) != (int(sizes.sum()),):
        raise UsageError(
            f"from_nested needs one number per rollout; got an array of {values.ndim} dimensions"
        )
    flat_columns = {name: _flatten(name, column, sizes) for name, column in columns.items()}
    return _parts(values, sizes, prompt_id=prompt_id, step=step, columns=flat_columns)


def dense(rewards: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]) -> Parts:
    """Return the parts of groups given as an array of shape ``(group, sample)``."""
    array = reward_array(rewards)
    if array.ndim != 2:
        raise UsageError(
            f"from_dense needs an array of shape (group, sample); got {array.ndim} dimension(s). "
            "Use from_nested for ragged lists, from_flat for rows with ids"
        )
    shape = n_groups, size = tuple(array.shape)
    flat_columns = {}
    for name, column in columns.items():
        values = to_numpy(column)
        if values.shape != shape:
            raise UsageError(f"column {name!r} has shape {values.shape}; expected {shape}")
        flat_columns[name] = column_array(values.reshape(-1), f"column {name!r}")
    sizes = np.full(n_groups, size, dtype=np.int64)
    values = namespace(array).reshape(array, (-1,))
    return _parts(values, sizes, prompt_id=prompt_id, step=step, columns=flat_columns)


def flat(
    rewards: Any, group_ids: Any, *, prompt_id: Any, step: Any, columns: Mapping[str, Any]
) -> Parts:
    """Return the parts of groups given as rows with group ids, in any order."""
    values = reward_array(rewards)
    if values.ndim != 1:
        raise UsageError(f"from_flat needs one reward per row; got shape {tuple(values.shape)}")
    n_rows = int(values.shape[0])
    row_id, labels = codes_of(group_ids, "group_ids")
    _check_length("group_ids", row_id, n_rows)
    if n_rows and int(row_id.min()) < 0:
        without = np.flatnonzero(row_id < 0)
        raise UsageError(
            f"group_ids is None or NaN in {len(without)} of {n_rows} rows, the first at row "
            f"{without[0]}: leave these rows out or say which group they belong to"
        )
    code, steps = _split_by_step(row_id, step_array(step), n_rows)
    n_groups = int(code.max(initial=-1)) + 1
    order = stable_order(code, n_groups)
    sizes = np.bincount(code, minlength=n_groups)
    first = order[offsets_of(sizes)[:-1]]
    moved = not (order[1:] > order[:-1]).all()

    by_row: Columns = {}
    for name, column in columns.items():
        by_row[name] = column_array(column, f"column {name!r}")
        _check_length(f"column {name!r}", by_row[name], n_rows)
    parts = _parts(
        take(values, order) if moved else values,
        sizes,
        prompt_id=prompt_id,
        step=steps[first] if steps.ndim and len(steps) == n_rows else steps,
        columns={name: column[order] for name, column in by_row.items()} if moved else by_row,
        order=order,
    )
    parts["group_id"] = labels[row_id[first]]
    return parts


def _split_by_step(
    code: NDArray[np.int64], steps: NDArray[np.int64], n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number rows of one id at different steps as different groups."""
    if not steps.ndim or len(steps) != n_rows or not n_rows:
        return code, steps
    of_id = np.empty(int(code.max()) + 1, dtype=np.int64)
    of_id[code] = steps
    if (of_id[code] == steps).all():
        return code, steps
    step_code = codes_of(steps)[0]
    return codes_of(code * (int(step_code.max()) + 1) + step_code)[0], steps


def _parts(
    values: Any,
    sizes: NDArray[np.int64],
    *,
    prompt_id: Any,
    step: Any,
    columns: Columns,
    order: NDArray[np.int64] | None = None,
) -> Parts:
    n_groups, offsets = len(sizes), offsets_of(sizes)
    steps = step_array(step)
    if not steps.ndim:
        steps = np.full(n_groups, steps, dtype=np.int64)
    _check_length("step", steps, n_groups)
    prompt, labels, columns = _prompts(prompt_id, offsets, order, columns)
    order = np.arange(int(offsets[-1]), dtype=np.int64) if order is None else order
    return {
        "values": values,
        "offsets": offsets,
        "order": order,
        "step": steps,
        "group_id": np.arange(n_groups),
        "prompt": prompt,
        "prompt_labels": labels,
        "columns": columns,
    }


def _prompts(
    prompt_id: Any, offsets: NDArray[np.int64], order: NDArray[np.int64] | None, columns: Columns
) -> tuple[NDArray[np.int64], NDArray[Any], Columns]:
    """Return the prompt of each group, the labels, and the columns with row prompts as codes.

    Only flat rows (those with an `order`) may name a prompt per row.
    """
    n_groups, n_rows = len(offsets) - 1, int(offsets[-1])
    columns = dict(columns)
    texts = columns.pop("prompt", None)
    if prompt_id is None and texts is None:
        return np.full(n_groups, -1, dtype=np.int64), object_array([]), columns
    if prompt_id is None:
        by_row, labels = codes_of(texts, "column 'prompt'")
    else:
        if texts is not None:
            columns["prompt_text"] = texts
        codes, labels = codes_of(prompt_id, "prompt_id")
        if order is None or len(codes) == n_groups != n_rows:
            _check_length("prompt_id", codes, n_groups)
            return codes, labels, columns
        if len(codes) != n_rows:
            raise UsageError(
                f"prompt_id has {len(codes)} entries; expected {n_groups}, one per group, "
                f"or {n_rows}, one per row"
            )
        by_row = codes[order]
    columns["prompt"] = by_row
    return _first_known(by_row, offsets), labels, columns


def _first_known(by_row: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the prompt of each group: that of its first row which knows one."""
    prompt = np.full(len(offsets) - 1, -1, dtype=np.int64)
    filled = offsets[1:] > offsets[:-1]
    prompt[filled] = by_row[offsets[:-1][filled]]
    if (prompt[filled] >= 0).all():
        return prompt
    known = np.flatnonzero(by_row >= 0)[::-1]
    # of several values for one place the last one stays
    prompt[np.repeat(np.arange(len(prompt)), np.diff(offsets))[known]] = by_row[known]
    return prompt


def sample_index(offsets: NDArray[np.int64], groups: NDArray[Any]) -> NDArray[np.int64]:
    """Return the samples of the named groups, group after group."""
    sizes = np.diff(offsets)[groups]
    starts = offsets[:-1][groups]
    return np.repeat(starts - offsets_of(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))


def offsets_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ``(group + 1,)`` boundaries of groups of these sizes."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _chain(rows: list[Any]) -> Any:
    """Return the rewards of all rows as one array; torch rows stay torch, with their gradient."""
    if rows and all(hasattr(row, "detach") for row in rows):
        return namespace(rows[0]).concat(rows)
    if any(hasattr(row, "ndim") for row in rows):
        arrays = [as_float64(row, "rewards") for row in rows]
        other = next((one for one in arrays if one.ndim != 1), None)
        if other is not None:
            raise UsageError(
                f"from_nested needs one number per rollout; a group has the shape {other.shape}"
            )
        return np.concatenate([np.zeros(0), *arrays])
    return as_float64(object_array(chain.from_iterable(rows)), "rewards")


def _list(name: str, values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise UsageError(f"{name} must be a list or an array; got {values!r}") from None


def _size(row: Any, place: int) -> int:
    try:
        if not isinstance(row, str | bytes | Mapping):
            return len(row)
    except TypeError:
        pass
    raise UsageError(
        f"from_nested needs one list of rewards per group; entry {place} is {row!r}. "
        "Use from_flat for rows with group ids"
    )


def _flatten(name: str, column: Any, sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Return a column that was given row by row, or flat, as one value per sample."""
    rows = (
        to_numpy(column).tolist() if hasattr(column, "ndim") else _list(f"column {name!r}", column)
    )
    rows = [_items(row) for row in rows]
    if rows and all(isinstance(row, Sequence) and not isinstance(row, str) for row in rows):
        if [len(row) for row in rows] != sizes.tolist():
            raise UsageError(
                f"column {name!r} must have the shape of the rewards; its rows hold "
                f"{_few([len(row) for row in rows])} values, the groups {_few(sizes.tolist())}"
            )
        rows = list(chain.from_iterable(rows))
    _check_length(f"column {name!r}", rows, int(sizes.sum()))
    return column_array(rows, f"column {name!r}")


def _items(row: Any) -> Any:
    return to_numpy(row).tolist() if hasattr(row, "ndim") else row


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")


def _check_length(name: str, values: Any, expected: int) -> None:
    if len(values) != expected:
        raise UsageError(f"{name} has {len(values)} entries; expected {expected}")

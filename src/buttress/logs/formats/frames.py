"""A frame in memory (pandas, Polars), a list of dicts or a dict of columns as a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from buttress.errors import InputError, UsageError
from buttress.groups import Text
from buttress.groups.arrays import to_numpy
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import lazy, parquet
from buttress.logs.formats.jsonl import Plan, Row
from buttress.logs.generic import plan_of
from buttress.logs.prose import text_of
from buttress.logs.reader import ReadOptions
from buttress.logs.trackers.metric_files import add_metrics, is_metrics

NAME = "frame"
_LOOKED_AT = 8
_NONE = "no column holds a reward: name it, as in map={{'reward': 'my_score'}}; there are: {}"


class _Table(NamedTuple):
    """Columns of one length, and the number of each row in what was given."""

    columns: dict[str, Any]
    rows: NDArray[np.int64]


def read_frame(frame: Any, options: ReadOptions, builder: RolloutBuilder) -> None:
    """Hand over a frame's rollouts, or its metrics where it has one row per step.

    Parameters
    ----------
    frame
        A pandas DataFrame, a Polars DataFrame or LazyFrame, a list of dicts, or a dict of columns
        of one length. NaN, None and pandas' NA are unknown.
    options, builder
        As for a reader; rows count from 1 under the path ``frame``.
    """
    if _is_polars(frame):
        try:
            _read_polars(frame.lazy().collect(), builder)
        except parquet.FAULTS as fault:
            raise InputError(f"Polars cannot read the frame: {fault}") from None
    elif hasattr(frame, "iloc"):
        _read_table(_of_pandas(frame), builder)
    elif isinstance(frame, Mapping):
        _read_table(_of_columns(frame), builder)
    else:
        _read_table(_of_dicts(frame, builder), builder)


def _is_polars(frame: Any) -> bool:
    return isinstance(frame, pl.DataFrame | pl.LazyFrame)


def _read_polars(frame: pl.DataFrame, builder: RolloutBuilder) -> None:
    plan = _plan(lazy.examples(frame.lazy(), frame.schema), builder)
    if plan is None:
        add_metrics(Path(NAME), enumerate(frame.iter_rows(named=True), 1), builder)
        return
    pair = lazy.text_columns(plan)

    def fetch(_: Path, rows: Sequence[int]) -> list[Text]:
        found = frame[[row - 1 for row in rows]]
        return texts([None if one is None else found[one].to_list() for one in pair], len(rows))

    lazy.add_rollouts(frame.lazy(), plan, builder.open(NAME, fetch), builder)


def _read_table(table: _Table, builder: RolloutBuilder) -> None:
    columns, n_rows = table.columns, len(table.rows)
    first = [
        {name: column[at] for name, column in columns.items()}
        for at in range(min(n_rows, _LOOKED_AT))
    ]
    plan = _plan(first or [dict.fromkeys(columns)], builder)
    if plan is None:
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        add_metrics(Path(NAME), zip(table.rows.tolist(), rows, strict=True), builder)
        return
    pair = lazy.text_columns(plan)
    place = {row: at for at, row in enumerate(table.rows.tolist())}

    def fetch(_: Path, rows: Sequence[int]) -> list[Text]:
        at = [place[row] for row in rows]
        return texts([one and [columns[one][n] for n in at] for one in pair], len(rows))

    read = {name: columns[column] for name, column in plan.columns.items()}
    for convert in plan.converts:
        read = convert(read)
    builder.add(builder.open(NAME, fetch), table.rows, plan.constants | read)


def texts(columns: Sequence[Sequence[Any] | None], count: int) -> list[Text]:
    """Return texts from a column of prompts and one of completions; absent ones are empty."""
    shown = [[""] * count if one is None else [text_of(v) or "" for v in one] for one in columns]
    return [Text(prompt, completion) for prompt, completion in zip(*shown, strict=True)]


def _plan(rows: list[Row], builder: RolloutBuilder) -> Plan | None:
    """Return what the columns are; None for metrics. Raises `InputError` for neither."""
    if not builder.options.map and any(map(is_metrics, rows)):
        return None
    plan = plan_of(lazy.example(rows), Path(NAME), builder=builder) if rows[0] else None
    if plan is None:
        raise InputError(_NONE.format(", ".join(rows[0])))
    return plan


def _of_pandas(frame: Any) -> _Table:
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    flat = frame.reset_index(level=named) if named else frame
    columns: dict[str, Any] = {}
    for at, name in enumerate(flat.columns):
        columns.setdefault(str(name), _pandas_column(flat.iloc[:, at]))
    return _Table(columns, np.arange(len(flat)) + 1)


def _pandas_column(series: Any) -> Any:
    """Return numbers as float64 with NaN for NA, anything else as a list with None for NA."""
    if series.dtype.kind in "fiub":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    return [None if absent else value for value, absent in zip(series, series.isna(), strict=True)]


def _of_columns(columns: Mapping[Any, Any]) -> _Table:
    for name, column in columns.items():
        if isinstance(column, str) or not isinstance(column, Iterable):
            raise UsageError(f"the column {name} must be a list or an array; got {column!r:.60}")
    sized = {
        str(name): to_numpy(column).tolist() if hasattr(column, "dtype") else list(column)
        for name, column in columns.items()
    }
    lengths = {name: len(column) for name, column in sized.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"the columns must have one length; got {lengths}")
    return _Table(sized, np.arange(max(lengths.values(), default=0)) + 1)


def _of_dicts(given: Sequence[Any], builder: RolloutBuilder) -> _Table:
    numbered = [(at, row) for at, row in enumerate(given, 1) if isinstance(row, Mapping)]
    kept = {at for at, _ in numbered}
    for at, row in enumerate(given, 1):
        if at not in kept:
            message = f"{type(row).__name__} instead of a dict, left out"
            builder.problem(NAME, at, message, lost=1)
    names = dict.fromkeys(str(name) for _, row in numbered for name in row)
    columns = {name: [row.get(name) for _, row in numbered] for name in names}
    return _Table(columns, np.array([at for at, _ in numbered], dtype=np.int64))

"""Trackio: its SQLite file of a project, and the Parquet files that it exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import polars as pl

from buttress.logs.builder import RolloutBuilder
from buttress.logs.decode import any_json
from buttress.logs.formats import parquet
from buttress.logs.metrics import MetricRows
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.trackers import sqlite_file
from buttress.logs.trackers.runs import StepRows, TrackedRun, take

_TABLE = "metrics"
_COLUMNS = {"run_name", "step", "timestamp"}
_OWN = ("id", "run_id", "run_name", "step", "timestamp", "log_id", "space_id")
_LOOKED_AT = 64  # a run's last rows, by which its metrics are known


class TrackioDatabase:
    """Reads ``<project>.db``: a row is a step's metrics, as JSON."""

    name: ClassVar[str] = "trackio"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = sqlite_file.SUFFIXES

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether it is a database with Trackio's metrics."""
        if not head.startswith(sqlite_file.START):
            return False
        return (sqlite_file.columns(path, _TABLE) or set()) >= {*_COLUMNS, "metrics"}

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        runs: list[TrackedRun] = []
        for path in files:
            sqlite_file.guarded(path, builder, partial(_list, path, builder, runs))
            builder.advance(path.stat().st_size)
        take(runs, builder, options)


def _list(path: Path, builder: RolloutBuilder, runs: list[TrackedRun]) -> None:
    with sqlite_file.opened(path) as connection:
        identity = _identity(sqlite_file.columns_of(connection, _TABLE))
        found = connection.execute(
            f"SELECT {identity}, max(run_name), min(timestamp) FROM metrics GROUP BY {identity}"
        ).fetchall()
        last = f"SELECT metrics FROM metrics WHERE {identity} = ? ORDER BY id DESC LIMIT ?"
        for id, name, first in found:
            rows = [_decoded(one) for (one,) in connection.execute(last, (id, _LOOKED_AT))]
            metrics = {key for row in rows if row for key in row}
            load = partial(_values, path, identity, id, builder)
            runs.append(TrackedRun(str(id), str(name), [path], _time(first), metrics, load))


def _identity(columns: Sequence[str] | set[str]) -> str:
    return "run_id" if "run_id" in columns else "run_name"


def _values(path: Path, identity: str, id: Any, builder: RolloutBuilder) -> MetricRows:
    rows = StepRows()

    def read() -> None:
        query = f"SELECT id, step, metrics FROM metrics WHERE {identity} = ? ORDER BY id"
        with sqlite_file.opened(path) as connection:
            for at, step, data in connection.execute(query, (id,)):
                row = _decoded(data)
                if row is None or not isinstance(step, int):
                    message = f"row {at} of metrics holds no JSON object, left out"
                    builder.problem(path, 0, message, kind="no JSON")
                else:
                    rows.add(row, step)

    sqlite_file.guarded(path, builder, read)
    return rows.metrics


def _decoded(data: Any) -> dict[str, Any] | None:
    try:
        row = any_json(data if isinstance(data, bytes) else str(data).encode())
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _time(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


class TrackioTables:
    """Reads ``<project>.parquet``: a row is a step, a column a metric."""

    name: ClassVar[str] = "trackio"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the columns are Trackio's and there are metrics."""
        if not head.startswith(parquet.MAGIC):
            return False
        try:
            names = set(pl.read_parquet_schema(path))
        except parquet.FAULTS:
            return False
        return names >= _COLUMNS and not names <= {*_OWN, "key", "messages"}

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        runs: list[TrackedRun] = []
        for path in files:
            try:
                runs += _table_runs(path, builder)
            except parquet.FAULTS as fault:
                builder.problem(path, 0, parquet.damage(path, fault))
            builder.advance(parquet.size_of(path))
        take(runs, builder, options)


def _table_runs(path: Path, builder: RolloutBuilder) -> Iterator[TrackedRun]:
    frame = parquet.scan(path)
    names = list(frame.collect_schema())
    identity = _identity(names)
    metrics = [name for name in names if name not in _OWN]
    known = [pl.col(name).is_not_null().any().alias(f"has {name}") for name in metrics]
    found = frame.group_by(identity, maintain_order=True).agg(
        pl.col("run_name").first().alias("named"), pl.col("timestamp").min().alias("first"), *known
    )
    for row in found.collect().iter_rows(named=True):
        id = row[identity]
        load: Callable[[], MetricRows] = partial(_table_values, path, identity, id, builder)
        yield TrackedRun(
            str(id),
            str(row["named"]),
            [path],
            _time(row["first"]),
            [name for name in metrics if row[f"has {name}"]],
            load,
        )


def _table_values(path: Path, identity: str, id: Any, builder: RolloutBuilder) -> MetricRows:
    rows = StepRows()
    try:
        of_run = parquet.scan(path).filter(pl.col(identity).eq_missing(pl.lit(id)))
        for row in of_run.collect().iter_rows(named=True):
            step = row["step"] if isinstance(row["step"], int) else 0
            # what a row lacks is null, as what is unknown
            kept = {
                name: value for name, value in row.items() if value is not None and name not in _OWN
            }
            rows.add(kept, step)
    except parquet.FAULTS as fault:
        builder.problem(path, 0, parquet.damage(path, fault))
    return rows.metrics

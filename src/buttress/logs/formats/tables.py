"""Parquet, CSV and TSV with the columns of the rollout table, or with metrics of steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from buttress.logs import files as log_files
from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import lazy, parquet
from buttress.logs.formats.csv_file import Chunk, CsvFile
from buttress.logs.formats.jsonl import Plan, Row
from buttress.logs.generic import is_rollout, plan_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, numeric
from buttress.logs.trackers.metric_files import add_metrics, is_metrics
from buttress.logs.values import NULLS, short

_SUFFIXES = (".parquet", ".csv", ".tsv")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_TRUTH = {"true": 1.0, "false": 0.0}
_WORDS = ("group", "prompt_id", "prompt", finish.NAME)
_LOOKED_AT = 8
_NONE = "no rollouts: no column has a reward or a completion; there are: {}"


class TableRollouts:
    """Reads Parquet, CSV and TSV with one rollout per row."""

    name: ClassVar[str] = "generic"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = _SUFFIXES

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether a row has a reward."""
        return any(map(is_rollout, _examples(path, head)))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the rollouts of a run."""
        for path in files:
            head = log_files.head(path)
            if _is_parquet(path, head):
                _read_parquet(path, builder)
            else:
                _read_csv(path, head, builder)


class TableMetrics:
    """Reads Parquet, CSV and TSV with metrics, wide or long, as `GenericMetrics` reads JSONL."""

    name: ClassVar[str] = "generic"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = _SUFFIXES

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows are a step's metrics."""
        return any(map(is_metrics, _examples(path, head)))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        for path in files:
            head = log_files.head(path)
            if not _is_parquet(path, head):
                add_metrics(path, _csv_rows(path, head, builder), builder)
                continue
            try:
                rows = parquet.scan(path).collect().iter_rows(named=True)
                add_metrics(path, enumerate(rows, 1), builder)
            except parquet.FAULTS as fault:
                builder.problem(path, 0, parquet.damage(path, fault))


def _is_parquet(path: Path, head: bytes) -> bool:
    return head.startswith(parquet.MAGIC) or path.suffix.lower() == ".parquet"


def _examples(path: Path, head: bytes) -> list[Row]:
    """Return the first rows; none of a damaged file, one of nulls of an empty one."""
    if _is_parquet(path, head):
        try:
            frame = parquet.scan(path)
            return lazy.examples(frame, frame.collect_schema())
        except parquet.FAULTS:
            return []
    table = CsvFile.of(path, head)
    if table is None:
        return []
    rows = table.first(head, _LOOKED_AT) or [[""] * len(table.names)]
    return [dict(zip(table.names, map(_guess, row), strict=True)) for row in rows]


def columns_of(path: Path) -> list[str]:
    """Return the columns of a table's first rows, also of JSON lines; none of anything else."""
    suffix = log_files.plain_suffix(path)
    if suffix not in (*_SUFFIXES, *JSON_SUFFIXES) or log_files.unreadable(path):
        return []
    try:
        head = log_files.head(path)
        rows = first_rows(head) if suffix in JSON_SUFFIXES else _examples(path, head)
    except OSError:
        return []
    if suffix == ".json" and len(rows) < 2:  # a document and no table
        return []
    return list(dict.fromkeys(name for row in rows for name in row))


def _guess(field: str) -> Any:
    """Return a field as the number that it spells, None where it is empty, else as it is."""
    if field.strip().lower() in NULLS:
        return None
    return float(field) if numeric(field) else _TRUTH.get(field.strip().lower(), field)


def _read_parquet(path: Path, builder: RolloutBuilder) -> None:
    try:
        frame = parquet.scan(path)
        rows = lazy.examples(frame, frame.collect_schema())
        plan = plan_of(lazy.example(rows), path, builder=builder)
        if plan:
            fetch = partial(parquet.texts, names=lazy.text_columns(plan))
            lazy.add_rollouts(frame, plan, builder.open(path, fetch), builder)
        else:
            builder.open(path)
            builder.problem(path, 0, _NONE.format(", ".join(rows[0])))
    except parquet.FAULTS as fault:
        builder.problem(path, 0, parquet.damage(path, fault))
    builder.advance(parquet.size_of(path))


def _read_csv(path: Path, head: bytes, builder: RolloutBuilder) -> None:
    table, rows = CsvFile.of(path, head), _examples(path, head)
    plan = plan_of(lazy.example(rows), path, builder=builder) if rows else None
    if table is None or plan is None:
        builder.open(path)
        names = ", ".join(table.names) if table else "none"
        builder.problem(path, 1, _NONE.format(names))
        return
    _tell_doubles(table, builder)
    columns = lazy.text_columns(plan)
    file = builder.open(path, lambda _, rows: table.texts(rows, columns))
    for chunk in table.chunks(builder):
        read = {name: _column(chunk, name, plan, path, builder) for name in plan.columns}
        for convert in plan.converts:
            read = convert(read)
        builder.add(file, chunk.lines, plan.constants | read)


def _column(chunk: Chunk, name: str, plan: Plan, path: Path, builder: RolloutBuilder) -> Any:
    fields = chunk.columns[plan.columns[name]]
    if name == "completion":
        return fields
    if name in _WORDS:
        return [field or None for field in fields]
    values, strange = _numbers(fields)
    for at in strange.tolist():
        kind = f"{name} is not a number"
        message = f"{kind}: {short(fields[at])}; taken as unknown"
        builder.problem(path, chunk.lines[at], message, kind=kind)
    return values


def _numbers(fields: list[str]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return fields as numbers, true and false as 1 and 0, and the places of all others."""
    values = pl.Series(fields, dtype=pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    numbers = values.fill_null(float("nan")).to_numpy(writable=True)
    strange = []
    for at in np.flatnonzero(values.is_null().to_numpy()):
        word = fields[at].strip().lower()
        numbers[at] = _TRUTH.get(word, np.nan)
        if word not in _TRUTH and word not in NULLS:
            strange.append(at)
    return numbers, np.array(strange, dtype=np.intp)


def _csv_rows(path: Path, head: bytes, builder: RolloutBuilder) -> Iterator[tuple[int, Row]]:
    table = CsvFile.of(path, head)
    for chunk in table.chunks(builder) if table else ():
        rows = zip(*chunk.columns.values(), strict=True)
        for line, row in zip(chunk.lines, rows, strict=True):
            yield line, dict(zip(chunk.columns, map(_guess, row), strict=True))


def _tell_doubles(table: CsvFile, builder: RolloutBuilder) -> None:
    double = sorted({name for name in table.names if table.names.count(name) > 1})
    if double:
        message = f"{', '.join(double)} stands in the header more than once; the first is read"
        builder.problem(table.path, 1, message)

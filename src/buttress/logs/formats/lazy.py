"""A Polars frame, on disk or in memory, to rollouts and metrics; texts never leave Polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from buttress.groups.identity import codes_of
from buttress.logs.builder import Coded, RolloutBuilder
from buttress.logs.formats import parquet
from buttress.logs.formats.jsonl import Plan, Row
from buttress.logs.prose import unknown_fingerprints

SLICE = 1 << 18
_LOOKED_AT = 8
_IDENTITIES = ("group", "prompt_id", "prompt")


def examples(frame: pl.LazyFrame, schema: Mapping[str, Any]) -> list[Row]:
    """Return the first rows; one of nulls where there are none."""
    rows = frame.head(_LOOKED_AT).collect().to_dicts()
    return rows or [dict.fromkeys(schema)]


def example(rows: list[Row]) -> Row:
    """Return the first value of each column that is not null."""
    return {
        name: next((row[name] for row in rows if row[name] is not None), None) for name in rows[0]
    }


def text_columns(plan: Plan) -> tuple[str | None, str | None]:
    """Return the columns of prompt and completion, None where there is none."""
    return plan.columns.get("prompt"), plan.columns.get("completion")


def add_rollouts(frame: pl.LazyFrame, plan: Plan, file: int, builder: RolloutBuilder) -> None:
    """Hand every row to the builder, a stretch at a time; rows are numbered from 1."""
    n_rows = frame.select(pl.len()).collect().item()
    for start in range(0, n_rows, SLICE):
        stretch = frame.slice(start, SLICE)
        columns = dict(_columns(stretch, plan.columns))
        for convert in plan.converts:
            columns = convert(columns)
        rows = np.arange(start, min(start + SLICE, n_rows)) + 1
        builder.add(file, rows, plan.constants | columns)


def _columns(frame: pl.LazyFrame, columns: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the builder's columns: numbers as arrays, identities as codes, texts as hashes."""
    hashed = {name: column for name, column in columns.items() if name in ("prompt", "completion")}
    plain = {name: column for name, column in columns.items() if name not in hashed}
    wanted = [pl.col(column).alias(name) for name, column in plain.items()]
    wanted += [pl.col(column).hash().alias(name) for name, column in hashed.items()]
    wanted += [pl.col(column).is_null().alias(f"no {name}") for name, column in hashed.items()]
    read = frame.select(wanted).collect(engine="streaming")
    for name in plain:
        identity = name in _IDENTITIES
        yield name, _coded(read[name]) if identity else _values(read[name])
    for name, column in hashed.items():
        hashes, absent = read[name].to_numpy(), read[f"no {name}"].to_numpy()
        if name == "prompt":
            yield name, _prompts(frame, column, hashes, absent)
        else:
            prints = hashes.view(np.int64).copy()
            prints[absent] = unknown_fingerprints(int(absent.sum()))
            yield name, prints


def _coded(series: pl.Series) -> Coded:
    code, hashes = codes_of(series.hash().to_numpy())
    first = np.full(len(hashes), len(code))
    np.minimum.at(first, code, np.arange(len(code)))
    return Coded(np.where(series.is_null().to_numpy(), -1, code), series.gather(first).to_list())


def _prompts(
    frame: pl.LazyFrame, column: str, hashes: NDArray[np.uint64], absent: NDArray[np.bool_]
) -> Coded:
    distinct = dict(parquet.distinct(frame, column))
    code, known = codes_of(hashes)
    labels = [distinct[one] for one in known.tolist()]
    return Coded(np.where(absent, -1, code), labels)


def _values(series: pl.Series) -> Any:
    if series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null):
        return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return series.to_list()  # the builder says what is wrong with each

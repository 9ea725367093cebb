"""Parquet through Polars: schema, columns and single rows; a damaged file is a problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from buttress.groups import Text
from buttress.logs.formats.parquet_footer import unpacked_size
from buttress.logs.prose import text_of

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

# Polars panics, instead of raising, on some damaged pages; its panic is no Exception.
FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

MAGIC = b"PAR1"
_WHOLE_BYTES = 1 << 26
# Rollouts differ from each other; a few bytes that unfold into all of the memory do not.
_MANY, _PER_BYTE = 1 << 22, 16
_LARGE, _UNPACKED_PER_BYTE = 1 << 28, 500
_BOMB = (
    "{} in {:,} bytes: rollouts that all repeat one value, or a file made to fill the memory; if "
    "it is sound, write its rows in several files"
)
Engine = Literal["streaming", "in-memory"]


def schema(path: Path, builder: RolloutBuilder) -> pl.Schema | None:
    """Return the columns and their types, or None where the file is damaged (a problem)."""
    try:
        return pl.Schema(pl.read_parquet_schema(path))
    except FAULTS as fault:
        builder.problem(path, 0, damage(path, fault))
        return None


def fault(path: Path) -> str | None:
    """Return why the file cannot be opened as Parquet, None where it can."""
    try:
        pl.read_parquet_schema(path)
        rows = scan(path).select(pl.len()).collect().item()
    except FAULTS as why:
        return damage(path, why)
    size = size_of(path)
    if rows > max(_MANY, _PER_BYTE * size):
        return _BOMB.format(f"{rows:,} rows", size)
    unpacked = unpacked_size(path) if size < _WHOLE_BYTES else None
    if unpacked and unpacked > max(_LARGE, _UNPACKED_PER_BYTE * size):
        return _BOMB.format(f"{unpacked >> 20:,} MiB", size)
    return None


def scan(path: Path) -> pl.LazyFrame:
    """Return a file as a lazy frame; its name is a name and no pattern."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def size_of(path: Path) -> int:
    """Return the number of bytes of a file, 0 where it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def engine_for(path: Path) -> Engine:
    """Return how to read a file: whole, or in stretches where it is large."""
    return "streaming" if size_of(path) > _WHOLE_BYTES else "in-memory"


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns; empty where the file is damaged."""
    try:
        return list(pl.read_parquet_schema(path))
    except FAULTS:
        return []


def damage(path: Path, fault: BaseException) -> str:
    """Return in one sentence why a Parquet file cannot be read, and what to do."""
    if isinstance(fault, OSError) and fault.strerror:
        return f"cannot be opened: {fault.strerror}"
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            size = file.seek(0, 2)
    except OSError:
        head, size = b"", 0
    if not size:
        return "the file is empty; write or copy it again"
    if head != MAGIC:
        return "not a Parquet file (it does not begin with PAR1)"
    first = str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
    return f"damaged Parquet file of {size} bytes, nothing read; write or copy it again: {first}"


def numbers(series: pl.Series) -> tuple[Any, int]:
    """Return a column as float64 with NaN for unknown, and how many values are no numbers.

    Numbers that stand as text are read. Lists and structs are all unknown.
    """
    known = series.len() - series.null_count()
    if isinstance(series.dtype, pl.Categorical | pl.Enum):
        series = series.cast(pl.String)
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.String, pl.Null)):
        return pl.repeat(float("nan"), series.len(), eager=True).to_numpy(), known
    if series.dtype == pl.String:
        series = series.str.strip_chars()
    read = series.cast(pl.Float64, strict=False)
    return read.fill_null(float("nan")).to_numpy(), known - (read.len() - read.null_count())


def distinct(
    frame: pl.LazyFrame, name: str, engine: Engine = "streaming"
) -> Iterator[tuple[int, str]]:
    """Yield hash and text of each distinct value of a column; chat messages become text."""
    pair = frame.select(pl.col(name).hash().alias("hash"), pl.col(name).alias("value"))
    for code, value in pair.unique(subset="hash").collect(engine=engine).iter_rows():
        yield code, text_of(value) or ""


def texts(path: Path, rows: Sequence[int], names: tuple[str | None, str | None]) -> list[Text]:
    """Return prompt and completion of rows (from 1, ascending); empty where there is no column."""
    wanted = [name for name in names if name is not None]
    index = [row - 1 for row in rows]
    try:
        frame = _rows(path, wanted, index)
    except FAULTS:
        return [Text("", "")] * len(rows)
    columns = [
        [""] * len(rows) if name is None else [text_of(one) or "" for one in frame[name].to_list()]
        for name in names
    ]
    return [Text(prompt, completion) for prompt, completion in zip(*columns, strict=True)]


def _rows(path: Path, wanted: Iterable[str], index: list[int]) -> pl.DataFrame:
    """Return a few rows; only the stretch of the file that holds them is kept."""
    if not index:
        return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    first, last = index[0], index[-1]
    stretch = scan(path).select(*wanted).slice(first, last - first + 1)
    place = pl.int_range(pl.len(), dtype=pl.Int64)
    offsets = [one - first for one in index]
    return stretch.filter(place.is_in(offsets)).collect(engine="streaming")

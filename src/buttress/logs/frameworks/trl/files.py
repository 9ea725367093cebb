"""One completions file of TRL as arrays: numbers, hashes of texts, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import parquet
from buttress.logs.prose import text_digest

FILE = re.compile(r"completions_(\d+)\.parquet$")
TEXTS = ("prompt", "completion")
FIXED = ("step", *TEXTS, "advantage")


@dataclass(frozen=True, eq=False, slots=True)
class Dump:
    """What TRL wrote at one step; every array has one entry per row.

    Attributes
    ----------
    file
        Where it stands.
    step
        The step at which it was written.
    row
        Row in the file, from 1.
    digest
        Hash of all columns but the step: equal for equal rows.
    prompt, completion
        Hashes of the texts.
    numbers
        Every other column that holds numbers, NaN for null.
    group
        Hash of the group that an extra column names, or None.
    headless
        Rows before these are missing, so that the first group may be torn.
    """

    file: Path
    step: int
    row: NDArray[np.int64]
    digest: NDArray[np.uint64]
    prompt: NDArray[np.uint64]
    completion: NDArray[np.uint64]
    numbers: Mapping[str, NDArray[np.float64]]
    group: NDArray[np.uint64] | None = None
    headless: bool = False

    def __len__(self) -> int:
        return len(self.row)

    def rows(self, start: int, stop: int, *, headless: bool | None = None) -> Dump:
        """Return a stretch of the rows."""
        part = slice(start, stop)
        return Dump(
            self.file,
            self.step,
            self.row[part],
            self.digest[part],
            self.prompt[part],
            self.completion[part],
            {name: values[part] for name, values in self.numbers.items()},
            None if self.group is None else self.group[part],
            self.headless if headless is None else headless,
        )


class Loader:
    """Reads completions files.

    Parameters
    ----------
    builder
        Takes the problems.
    mapped
        The column of group ids that the user named, if any.
    extras
        Names that it may have otherwise, most telling first.

    Attributes
    ----------
    prompts, groups
        Hash of each distinct prompt -> digest of its text, None where there is no text; of each
        group id -> itself.
    floats
        Columns that hold floating-point numbers in some file, in order of first appearance.
    strange
        Number of values of a file and column that are no numbers.
    """

    def __init__(
        self, builder: RolloutBuilder, mapped: str | None = None, extras: Sequence[str] = ()
    ) -> None:
        self.builder = builder
        self.prompts: dict[int, str | None] = {}
        self.groups: dict[int, str] = {}
        self.floats: dict[str, None] = {}
        self.strange: dict[tuple[Path, str], int] = {}
        self._group = (mapped,) if mapped else tuple(extras)

    def load(self, path: Path) -> list[Dump]:
        """Return the dumps of a file, one per step; none where it is damaged."""
        self.builder.advance(parquet.size_of(path))
        schema = parquet.schema(path, self.builder)
        if schema is None:
            return []
        if missing := [name for name in TEXTS if name not in schema]:
            message = f"no column {' and '.join(missing)}; is it a completions file of TRL?"
            self.builder.problem(path, 0, message)
            return []
        try:
            frame = self._frame(path, schema)
        except parquet.FAULTS as fault:
            self.builder.problem(path, 0, parquet.damage(path, fault))
            return []
        if not frame.height:
            self.builder.problem(path, 0, "the file holds no rows")
            return []
        return list(self._by_step(path, frame))

    def _frame(self, path: Path, schema: pl.Schema) -> pl.DataFrame:
        """Return the hashed and numeric columns, and take note of prompts and group ids."""
        group = next((name for name in self._group if name in schema), None)
        hashes = {name: pl.col(name).hash().alias(f"#{name}") for name in schema if name != "step"}
        kept = [name for name in schema if name not in TEXTS and _may_hold_numbers(schema[name])]
        frame, engine = parquet.scan(path), parquet.engine_for(path)
        frame = frame.collect().lazy() if engine == "in-memory" else frame
        for code, prompt in parquet.distinct(frame, "prompt", engine):
            self.prompts.setdefault(code, text_digest(prompt))
        if group is not None:
            self.groups.update(parquet.distinct(frame, group, engine))
        read = frame.select(*kept, *hashes.values()).collect(engine=engine)
        digest = _mixed([read[f"#{name}"].to_numpy() for name in hashes])
        grouped = [pl.col(f"#{group}").alias("#group")] if group else []
        return read.select(*kept, "#prompt", "#completion", pl.Series("#digest", digest), *grouped)

    def _by_step(self, path: Path, frame: pl.DataFrame) -> Iterator[Dump]:
        steps = self._steps(path, frame)
        columns = self._numbers(path, frame)
        group = frame["#group"].to_numpy() if "#group" in frame.columns else None
        starts = np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
        for start, stop in zip(starts, np.append(starts[1:], len(steps)), strict=True):
            part = slice(start, stop)
            yield Dump(
                path,
                int(steps[start]),
                np.arange(start, stop) + 1,
                frame["#digest"].to_numpy()[part],
                frame["#prompt"].to_numpy()[part],
                frame["#completion"].to_numpy()[part],
                {name: values[part] for name, values in columns.items()},
                None if group is None else group[part],
            )

    def _steps(self, path: Path, frame: pl.DataFrame) -> NDArray[np.int64]:
        named = FILE.search(path.name)
        fallback = int(named[1]) if named else 0
        if "step" not in frame.columns:
            self.builder.problem(path, 0, f"no column step; taken as step {fallback}")
            return np.full(frame.height, fallback)
        values, strange = parquet.numbers(frame["step"])
        known = np.abs(values) < 2.0**53
        if strange or not known.all():
            count = int((~known).sum())
            self.builder.problem(path, 0, f"{count} rows name no step; taken as step {fallback}")
        return np.where(known, values, fallback).astype(np.int64)

    def _numbers(self, path: Path, frame: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
        columns = {}
        for name in frame.columns:
            if name.startswith("#") or name == "step":
                continue
            if frame[name].dtype.is_float():
                self.floats.setdefault(name)
            values, self.strange[path, name] = parquet.numbers(frame[name])
            columns[name] = np.where(np.isinf(values), np.nan, values)
        return columns


def _may_hold_numbers(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype in (pl.Boolean, pl.Null, pl.String)


def _mixed(hashes: list[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return one hash per row of several."""
    mixed = np.zeros(len(hashes[0]), dtype=np.uint64)
    for one in hashes:
        mixed = (mixed ^ one) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed

"""JSONL files that hold metrics of steps and no rollouts: verl's file logger, and any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import ALIASES, COMPONENT, IDENTITY
from buttress.logs.decode import any_json
from buttress.logs.formats.lines import blocks
from buttress.logs.metrics import STEP_NAMES, TRAINER_NAMES, MetricRows, step_of, trl_name
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows

Row = dict[str, Any]
_LONG = {"step", "name", "value"}


class VerlMetrics:
    """Reads verl's ``file`` logger: ``{"step": s, "data": {name: value}}`` a line."""

    name: ClassVar[str] = "verl"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows hold a step and its data."""
        return any(_is_verl(row) for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        for path in files:
            add_metrics(path, json_rows(path, builder), builder)


class GenericMetrics:
    """Reads metrics with one row a step (wide), or one row a value (``step, name, value``)."""

    name: ClassVar[str] = "generic"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows are a step's metrics."""
        return any(is_metrics(row) for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        for path in files:
            add_metrics(path, json_rows(path, builder), builder)


def is_metrics(row: Row) -> bool:
    """Return whether a row holds metrics of a step and no rollout.

    ``reward`` alone does not tell: it is a rollout's reward or a step's mean. Beside a metric that
    only a trainer logs, and without prompt, completion or group, it is the mean.
    """
    if row.keys() >= _LONG:
        return isinstance(row["name"], str)
    if step_of(row) is None or any(_has(row, name) for name in IDENTITY):
        return False
    names = {trl_name(name) for name in row}
    if not TRAINER_NAMES.isdisjoint(names):
        return True
    rollout = _has(row, "reward") or any(name.startswith(COMPONENT) for name in row)
    numbers = [name for name, value in row.items() if isinstance(value, int | float)]
    return not rollout and len(numbers) > 1


def _has(row: Row, name: str) -> bool:
    # a metric's name is never taken for an alias of a column
    return any(column in row and column not in TRAINER_NAMES for column in (name, *ALIASES[name]))


def _is_verl(row: Row) -> bool:
    return isinstance(row.get("data"), dict) and step_of(row) is not None


def add_metrics(path: Path, rows: Iterable[tuple[int, Row]], builder: RolloutBuilder) -> None:
    """Hand over the metrics of a file's rows, each given with its number."""
    builder.open(path)
    metrics = MetricRows()
    for line, row in rows:
        step = step_of(row)
        if step is None:
            builder.problem(path, line, "a row of metrics without a step, left out")
        elif row.keys() >= _LONG and isinstance(row["name"], str):
            metrics.add(step, row["name"], row["value"])
        else:
            values = row["data"] if _is_verl(row) else row
            for name, value in values.items():
                if name not in STEP_NAMES:
                    metrics.add(step, name, value)
    metrics.hand_over(builder)


def json_rows(path: Path, builder: RolloutBuilder) -> Iterator[tuple[int, Row]]:
    """Yield line number and row of each JSON object; what is none is a problem."""
    for block in blocks(path, builder):
        for line, text in block.lines():
            try:
                row = any_json(text.removeprefix(b"\xef\xbb\xbf"))
            except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                builder.problem(path, line, f"not a JSON object: {fault}", kind="not JSON")
                continue
            if isinstance(row, dict):
                yield line, row
            else:
                builder.problem(path, line, "not a JSON object, left out")

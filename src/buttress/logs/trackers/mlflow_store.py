"""MLflow: its SQLite store, and the older store of one text file per metric."""

from __future__ import annotations

import math
import re
import sqlite3
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from buttress.logs import files as log_files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.lines import blocks
from buttress.logs.metrics import MetricRows
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import number_or_nan
from buttress.logs.trackers import sqlite_file
from buttress.logs.trackers.runs import TrackedRun, take

META = "meta.yaml"
_METRICS = "metrics"
_LINE = re.compile(rb"\d+ (\S+) (-?\d{1,15})(?: |\s*$)")
_HEAD = re.compile(rb"\d{8,} \S+ -?\d+\b")
_ENTRY = re.compile(r"^(\w+): *'?(.*?)'?$", re.MULTILINE)
_LARGEST = sys.float_info.max  # what MLflow's database has for infinity


class MlflowDatabase:
    """Reads ``mlflow.db`` and ``mlruns.db``."""

    name: ClassVar[str] = "mlflow"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = sqlite_file.SUFFIXES

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether it is a database with MLflow's metrics, or one too broken to tell."""
        if not head.startswith(sqlite_file.START):
            return False
        found = sqlite_file.columns(path, _METRICS)
        return found is None or found >= {"key", "value", "run_uuid", "step"}

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        runs: list[TrackedRun] = []
        for path in files:
            sqlite_file.guarded(path, builder, partial(_list, path, builder, runs))
            builder.advance(path.stat().st_size)
        take(runs, builder, options)


def _list(path: Path, builder: RolloutBuilder, runs: list[TrackedRun]) -> None:
    keys: dict[Any, set[str]] = {}
    with sqlite_file.opened(path) as connection:
        for id, key in connection.execute("SELECT DISTINCT run_uuid, key FROM metrics"):
            keys.setdefault(id, set()).add(str(key))
        known = _runs(connection)
    for id, metrics in keys.items():
        name, started, stage = known.get(id, (None, None, None))
        start = number_or_nan(started)
        runs.append(
            TrackedRun(
                str(id),
                str(name or id),
                [path],
                0.0 if math.isnan(start) else start,
                metrics,
                partial(_values, path, id, builder),
                stage == "deleted",
            )
        )


def _runs(connection: sqlite3.Connection) -> dict[Any, tuple[Any, Any, Any]]:
    wanted = ["run_uuid", "name", "start_time", "lifecycle_stage"]
    if not sqlite_file.columns_of(connection, "runs") >= set(wanted):
        return {}
    found = connection.execute(f"SELECT {', '.join(wanted)} FROM runs")
    return {id: (name, start, stage) for id, name, start, stage in found}


def _values(path: Path, id: Any, builder: RolloutBuilder) -> MetricRows:
    metrics = MetricRows()

    def read() -> None:
        with sqlite_file.opened(path) as connection:
            nan = "is_nan" if "is_nan" in sqlite_file.columns_of(connection, _METRICS) else "0"
            query = (
                f"SELECT key, step, value, {nan} FROM metrics WHERE run_uuid = ? "
                "ORDER BY timestamp, rowid"
            )
            for key, step, value, is_nan in connection.execute(query, (id,)):
                if isinstance(step, int):
                    metrics.add(step, str(key), math.nan if is_nan else _unclamped(value))

    sqlite_file.guarded(path, builder, read)
    return metrics


def _unclamped(value: Any) -> Any:
    beyond = isinstance(value, float) and abs(value) == _LARGEST
    return math.copysign(math.inf, value) if beyond else value


class MlflowFiles:
    """Reads ``mlruns/<experiment>/<run>/metrics/<name>``: a line is time, value and step."""

    name: ClassVar[str] = "mlflow"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = ()

    def knows(self, path: Path) -> bool:
        """Return whether the file lies where MLflow keeps metrics."""
        return run_folder(path) is not None

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether it lies where metrics do and has lines of them."""
        return self.knows(path) and bool(_HEAD.match(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        folders: dict[Path, list[Path]] = {}
        for path in files:
            folder = run_folder(path) or path.parent
            folders.setdefault(folder, []).append(path)
        take([_folder_run(one, some, builder) for one, some in folders.items()], builder, options)


def run_folder(path: Path) -> Path | None:
    """Return the run's folder of a file below its folder of metrics, None for any other file."""
    if _METRICS not in path.parts:
        return None
    for folder in path.parents:
        if folder.name == _METRICS and (folder.parent / META).is_file():
            return folder.parent
    return None


def _folder_run(folder: Path, files: Sequence[Path], builder: RolloutBuilder) -> TrackedRun:
    meta = _meta(folder / META)
    id = meta.get("run_id") or folder.name
    start = meta.get("start_time", "")
    return TrackedRun(
        id,
        meta.get("run_name") or id,
        files,
        float(start) if start.isdecimal() else 0.0,
        [_key(path, folder) for path in files],
        partial(_read_files, folder, files, builder),
        meta.get("lifecycle_stage") == "deleted",
    )


def _key(path: Path, folder: Path) -> str:
    inside = path.relative_to(folder / _METRICS) if run_folder(path) else Path(path.name)
    return inside.as_posix()


def _meta(path: Path) -> dict[str, str]:
    try:
        return dict(_ENTRY.findall(log_files.head(path).decode("utf-8", "replace")))
    except OSError:
        return {}


def _read_files(folder: Path, files: Sequence[Path], builder: RolloutBuilder) -> MetricRows:
    metrics = MetricRows()
    for path in files:
        for block in blocks(path, builder):
            _take_lines(block.lines(), path, _key(path, folder), metrics, builder.problem)
    return metrics


def _take_lines(
    lines: Any, path: Path, key: str, metrics: MetricRows, problem: Callable[..., None]
) -> None:
    for number, line in lines:
        found = _LINE.match(line)
        try:
            value = float(found[1]) if found else None
        except ValueError:
            value = None
        if found is None or value is None:
            message = "not a metric (time, value and step), left out"
            problem(path, number, message)
        else:
            metrics.add(int(found[2]), key, value)

"""Where does a run come from, at rest? One reader per format; each recognises its own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

from buttress.errors import InputError, UsageError
from buttress.groups import Run
from buttress.logs import files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import check_map
from buttress.logs.reader import ReadOptions
from buttress.logs.sampling import note_settings
from buttress.logs.selection import choose, select
from buttress.logs.workers import read_files

__all__ = ["read"]

_LARGEST = 1 << 31  # rollouts of one group


def read(
    source: Any,
    *,
    format: str | None = None,
    map: Mapping[str, str] | None = None,
    group_size: int | None = None,
    run: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Read the rollouts and metrics of a run.

    What cannot be read becomes one of the run's ``problems``; the rest is read. What had to be
    concluded (a group from a prompt, a column from another name) stands in ``source.inferred``.

    Parameters
    ----------
    source
        A file, a directory, a pattern, several of them, a pandas or Polars frame, or a list of
        dicts with the columns of the rollout table. Files may be compressed with gzip or zstd.
    format
        Name of the format, where it should not be recognised: ``trl``, ``verl``, ``prime-rl``,
        ``verifiers``, ``nemo-rl``, ``areal``, ``skyrl``, ``ms-swift``, ``open-instruct``, ``roll``,
        ``rllm``, ``tinker``, ``inspect_ai``, ``generic``; for metrics also ``wandb``,
        ``tensorboard``, ``mlflow`` and ``trackio``.
    map
        Column of the rollout table -> name of the column in the log.
    group_size
        Rollouts per prompt. Where the log names no groups, as many consecutive rows are one.
    run
        Name or id of the run to read, where a tracker's store holds several.
    progress
        Called with the bytes read so far and the bytes in all.

    Raises
    ------
    InputError
        When there is nothing that could be read.
    UsageError
        For an unknown format or column, or a group size below 1.
    """
    options = _options(format, map, group_size, run)
    if _is_frame(source):
        from buttress.logs.formats.frames import read_frame

        builder = RolloutBuilder(options)
        read_frame(source, options, builder)
        return _finished(builder, "frame")
    paths, named, missing = _expanded(source)
    found = select(paths, named, options)
    told = _Progress(progress)
    builder = RolloutBuilder(options, told.advance)
    note_settings(found, builder)
    name, chosen = choose(found, builder)
    for path, why in missing:
        builder.problem(path, 0, why)
    told.total = sum(path.stat().st_size for _, some in chosen for path in some)
    for reader, some in chosen:
        read_files(reader, some, builder, options)
    return _finished(builder, name)


class _Progress:
    def __init__(self, tell: Callable[[int, int], None] | None) -> None:
        self._tell = tell
        self._done = 0
        self.total = 0

    def advance(self, n_bytes: int) -> None:
        self._done += n_bytes
        if self._tell:
            self._tell(min(self._done, self.total), self.total)


def _options(
    format: str | None, map: Mapping[str, str] | None, group_size: int | None, run: str | None
) -> ReadOptions:
    if not isinstance(map or {}, Mapping):
        raise UsageError(f"map must be a dict of column names; got {map!r:.60}")
    check_map(map or {})
    if other := [one for one in (map or {}).values() if not isinstance(one, str)]:
        raise UsageError(f"map must name a column of the log; got {other[0]!r:.60}")
    whole = isinstance(group_size, Integral | None) and not isinstance(group_size, bool)
    if not whole or not (group_size is None or 1 <= group_size < _LARGEST):
        raise UsageError(
            f"the group size must be a whole number, 1 or more; got {group_size!r:.60}"
        )
    if not isinstance(run, str | None):
        raise UsageError(f"run must be the name or id of a run; got {run!r:.60}")
    return ReadOptions(format, dict(map or {}), group_size, run)


def _is_frame(source: Any) -> bool:
    if hasattr(source, "collect_schema") or (
        hasattr(source, "columns") and hasattr(source, "shape")
    ):
        return True
    rows = isinstance(source, list | tuple) and len(source) > 0
    return isinstance(source, Mapping) or (rows and isinstance(source[0], Mapping))


def _expanded(source: Any) -> tuple[list[Path], set[Path], list[tuple[str, str]]]:
    """Return every file, each once, those that were named one by one, and what is not there.

    Raises `InputError` where nothing is there.
    """
    given = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(given, Iterable) or not (given := list(given)):
        raise UsageError("read needs a file, directory, pattern or frame")
    found: dict[str, Path] = {}
    named, missing = set(), []
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise UsageError(f"read needs paths or a frame; got {type(one).__name__}")
        try:
            paths = files.expand(one)
        except InputError as fault:
            missing.append((os.fspath(one), str(fault)))
            continue
        for path in paths:
            found.setdefault(os.path.realpath(path), path)
        if not files.located(one).is_dir():
            named.update(paths)
    if not found:
        raise InputError("; ".join(why for _, why in missing))
    return list(found.values()), named, missing


def _finished(builder: RolloutBuilder, name: str) -> Run:
    missing = {
        one: column for one, column in builder.options.map.items() if one not in builder.mapped
    }
    if missing and builder.columns:
        raise UsageError(
            f"no column {', '.join(missing.values())} (mapped to {', '.join(missing)}) in the log; "
            f"there are: {', '.join(list(builder.columns)[:30])}"
        )
    return builder.finish(name)

"""Collects what readers find, in about 100 bytes a rollout, and makes a `Run` of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import LogFacts, Run, Scalar, Source
from buttress.logs import grouping, prose, repeats, values
from buttress.logs.changes import Changes, Seen
from buttress.logs.problems import Problems
from buttress.logs.reader import Fetch, ReadOptions
from buttress.logs.texts import TextsOnDisk

# Text columns become integer codes; -1 is "unknown".
CODED = ("group", "prompt", "prompt_id")
INTEGERS = {"step": np.int64, "sample": np.int64}


class Coded(NamedTuple):
    """A text column as codes into labels (a categorical); -1 is unknown."""

    codes: NDArray[Any]
    labels: Sequence[str | None]


class Part(NamedTuple):
    """What a builder collected, in a form that another one can take over."""

    paths: list[str]
    fetchers: list[Fetch | None]
    rows: int
    table: dict[str, NDArray[Any]]
    labels: dict[str, list[str]]
    scalars: dict[str, list[tuple[Any, Any]]]
    problems: Problems
    unreadable: int
    inferred: list[str]
    changes: Changes
    columns: dict[str, None]
    mapped: set[str]
    filtered: bool


class RolloutBuilder:
    """Takes rollouts in chunks of columns; keeps numbers, codes and hashes, never texts.

    A reader calls `open` for each file, then `add` for each chunk of rows, `scalars` for metrics,
    `problem` for what is broken, `infer` and `note` for what else it knows.

    Parameters
    ----------
    options
        What the user said; `group_size` decides how rows without a group id are grouped.
    advance
        Told the number of bytes each time some were read, for a progress bar.
    """

    def __init__(
        self, options: ReadOptions | None = None, advance: Callable[[int], None] | None = None
    ) -> None:
        self.options = options or ReadOptions()
        self.advance = advance or (lambda n_bytes: None)
        self.problems = Problems()
        self.facts = LogFacts(group_size=self.options.group_size)
        self.rows = 0
        self.columns: dict[str, None] = {}  # every column that any file has
        self.mapped: set[str] = set()  # names of the user's map whose column was found
        self._paths: list[str] = []
        self._fetchers: list[Fetch | None] = []
        self._inferred: dict[str, None] = {}
        self._changes = Changes()
        self._table = values.Table()
        self._interned = {name: prose.Interned(texts=name == "prompt") for name in CODED}
        self._scalars: dict[str, list[tuple[Any, Any]]] = {}

    def open(self, path: str | Path, fetch: Fetch | None = None) -> int:
        """Register a file and return its index; `fetch` reads texts of its rows back later."""
        self._paths.append(str(path))
        self._fetchers.append(fetch)
        return len(self._paths) - 1

    def add(self, file: int, rows: Any, columns: Mapping[str, Any], lines: Any = None) -> None:
        """Add rows of one file.

        Parameters
        ----------
        file
            Index from `open`.
        rows
            Row or line numbers, from 1; shape ``(row,)``.
        columns
            By canonical name; what is absent is unknown. ``step`` may be one number. ``group``,
            ``prompt``, ``prompt_id``: list of str (or other identities) and None, or `Coded`.
            ``completion``: list of str, bytes or None, or an integer array of hashes.
            ``sample``, ``reward``, ``reward/<name>``, ``correct``, ``advantage``, ``length``,
            ``truncated``: numeric array, or a list of numbers, booleans and None. Text that spells
            a number is taken as one and said; anything else there is unknown and a problem.
        lines
            Where problems of the rows are placed, if a line may hold several rows.
        """
        rows = np.asarray(rows, dtype=np.int32)
        chunk: dict[str, Any] = {"file": np.int32(file), "row": rows}
        lines = rows if lines is None else np.asarray(lines, dtype=np.int32)
        where = values.Place(self.problems, self._paths[file], lines)
        for name, column in columns.items():
            if name in CODED:
                chunk[name] = self._interned[name].codes(column)
            elif name == "completion":
                chunk[name] = prose.fingerprints(column)
            elif name in INTEGERS:
                chunk[name] = values.integers(where, name, column)
            else:
                chunk[name] = values.numbers(where, name, column)
        self._table.add(len(rows), chunk)
        self.rows += len(rows)

    def scalar(self, step: int, name: str, value: float | None) -> None:
        """Add one metric value under TRL's name for it."""
        self.scalars(name, [step], [np.nan if value is None else value])

    def scalars(self, name: str, steps: Any, metric: Any) -> None:
        """Add a metric's values; both of shape ``(entry,)``, NaN where the log has null."""
        self._scalars.setdefault(name, []).append((steps, metric))

    def problem(
        self, path: str | Path, line: int, message: str, *, lost: int = 0, kind: str | None = None
    ) -> None:
        """Record what could not be read; `line` from 1, 0 for the whole file.

        `lost` is the number of rollout rows that were left out for it. Of each kind (default: the
        message) the first 20 of a file are kept and the others counted.
        """
        self.problems.add(str(path), line, message, kind=kind)
        if lost:
            self.facts = replace(self.facts, unreadable=self.facts.unreadable + lost)

    def read_from(self, columns: dict[str, str], path: Path, line: int) -> None:
        """Record which columns rows are read from; that they change is a problem."""
        self._changes.note(Seen(columns, path, line), self.problems)

    def infer(self, sentence: str) -> None:
        """Record what was concluded and not read, for the report; equal sentences stand once."""
        self._inferred[sentence] = None

    def note(self, **facts: Any) -> None:
        """Set fields of `LogFacts`: ``logged_every=2``, ``group_size=8``, ``filtered=True``, ..."""
        self.facts = replace(self.facts, **facts)

    def part(self) -> Part:
        """Return everything that was collected, and forget the rows."""
        return Part(
            self._paths,
            self._fetchers,
            self.rows,
            self._table.columns(),
            {name: interned.labels for name, interned in self._interned.items()},
            self._scalars,
            self.problems,
            self.facts.unreadable,
            list(self._inferred),
            self._changes,
            self.columns,
            self.mapped,
            self.facts.filtered,
        )

    def absorb(self, part: Part) -> None:
        """Take over what another builder collected, as if its files had been read here."""
        for name in part.table.keys() & self._interned.keys():
            part.table[name] = self._interned[name].merged(part.labels[name])[part.table[name]]
        if part.rows:
            part.table["file"] += len(self._paths)
            self._table.add(part.rows, dict(part.table))
        self.rows += part.rows
        self._paths += part.paths
        self._fetchers += part.fetchers
        for name, entries in part.scalars.items():
            self._scalars.setdefault(name, []).extend(entries)
        self.problems.absorb(part.problems)
        self._changes.absorb(part.changes, self.problems)
        self.note(
            unreadable=self.facts.unreadable + part.unreadable,
            filtered=self.facts.filtered or part.filtered,
        )
        self._inferred |= dict.fromkeys(part.inferred)
        self.columns |= part.columns
        self.mapped |= part.mapped

    def finish(self, format: str, paths: Iterable[str | Path] = ()) -> Run:
        """Return the run: rows grouped, repeated blocks dropped, scalars in order of step."""
        rows = self._table.columns()
        rows = repeats.drop_blocks(rows, self)
        groups = grouping.grouped(rows, self._interned, self)
        texts = None
        if any(self._fetchers) and len(groups):
            texts = TextsOnDisk(groups, tuple(self._paths), tuple(self._fetchers))
        return Run(
            groups=groups,
            scalars={name: _merged(parts) for name, parts in sorted(self._scalars.items())},
            source=Source(
                # the index of a rollout's file points into these
                tuple(self._paths) or tuple(str(path) for path in paths),
                format,
                tuple(self._inferred),
            ),
            problems=self.problems.all(),
            texts=texts,
            facts=self.facts,
        )


def _merged(parts: list[tuple[Any, Any]]) -> Scalar:
    """Join a metric's parts; of several values at one step the last written stands."""
    step = np.concatenate([np.atleast_1d(np.asarray(steps, dtype=np.int64)) for steps, _ in parts])
    value = np.concatenate([np.atleast_1d(np.asarray(v, dtype=np.float64)) for _, v in parts])
    order = np.argsort(step, kind="stable")
    step, value = step[order], value[order]
    last = np.append(step[1:] != step[:-1], True)
    return Scalar(step[last], value[last])

"""Which files of what the user named are the run: rollouts of one format, metrics of any."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from buttress.errors import InputError, UsageError
from buttress.logs import files
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import pickles
from buttress.logs.frameworks.inspect_files import is_archive
from buttress.logs.reader import Reader, ReadOptions, readers
from buttress.logs.trackers.beside import holds_nothing
from buttress.logs.trackers.checkpoints import of_checkpoint

_VALIDATION = re.compile(r"val|valid|validation|eval|evals|evaluation|test", re.IGNORECASE)
_LISTED = 8
_COLUMNS = 30


@dataclass
class Selection:
    """Files by the reader that takes them, and the files that none does."""

    taken: dict[str, tuple[Reader, list[Path]]] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)
    pickled: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)

    def take(self, reader: Reader, path: Path) -> None:
        """Give a file to a reader."""
        self.taken.setdefault(type(reader).__qualname__, (reader, []))[1].append(path)

    def of_kind(self, kind: str) -> list[tuple[Reader, list[Path]]]:
        """Return the readers of one kind that have files."""
        return [pair for pair in self.taken.values() if pair[0].kind == kind]


def select(paths: Iterable[Path], named: set[Path], options: ReadOptions) -> Selection:
    """Return which reader takes which file.

    Parameters
    ----------
    paths
        Every file below what the user named.
    named
        Those that the user named one by one; they are looked into whatever their suffix is.
    options
        With `format` only the readers of that name are asked, and by suffix instead of content.
    """
    known = [one for one in readers() if options.format in (None, one.name)]
    if not known:
        raise UsageError.unknown("format", str(options.format), {one.name for one in readers()})
    found, rest = Selection(), []
    for path in paths:
        suffix = files.plain_suffix(path)
        if path not in named and (holds_nothing(path) or of_checkpoint(path)):
            continue
        if suffix in files.PICKLED:
            found.pickled.append(path)
        elif path in named or path.is_dir() or any(_fits(one, path, suffix) for one in known):
            _ask(found, rest, path, known, options)
        else:
            found.unknown.append(path)
    _force(found, rest, known, options)
    return found


def _fits(reader: Reader, path: Path, suffix: str) -> bool:
    knows = getattr(reader, "knows", None)
    return suffix in reader.suffixes or (knows is not None and knows(path))


def _ask(
    found: Selection, rest: list[Path], path: Path, known: list[Reader], options: ReadOptions
) -> None:
    head, why = _head(path)
    if why:
        found.unreadable.append((path, why))
        return
    # columns that the user maps are rollouts, whatever else the file looks like
    mapped = any(
        column.encode("utf-8", "surrogateescape") in head for column in options.map.values()
    )
    for reader in known:
        if (reader.kind == "rollouts" or not mapped) and reader.sniff(path, head):
            found.take(reader, path)
            return
    rest.append(path)


def _head(path: Path) -> tuple[bytes, str | None]:
    """Return the first bytes of a file, and why no reader needs to be asked about it."""
    if why := files.unreadable(path):
        return b"", why
    try:
        head = files.head(path)
    except OSError as fault:
        return b"", fault.strerror or str(fault)
    if path.suffix.lower() == ".parquet":
        from buttress.logs.formats import parquet  # slow to import, and often not needed

        return head, parquet.fault(path)
    return head, None if is_archive(path, head) else files.foreign(head)


def _force(found: Selection, rest: list[Path], known: list[Reader], options: ReadOptions) -> None:
    """Give files that no reader recognised to the format that the user named, or maps into."""
    forced = options.format or ("generic" if options.map else None)
    if forced is None or found.of_kind("rollouts"):
        found.unknown += rest
        return
    for path in rest:
        fitting = [
            one
            for one in known
            if (one.name, one.kind) == (forced, "rollouts")
            and files.plain_suffix(path) in one.suffixes
        ]
        if fitting:
            found.take(fitting[0], path)
        else:
            found.unknown.append(path)


def choose(
    found: Selection, builder: RolloutBuilder
) -> tuple[str, list[tuple[Reader, list[Path]]]]:
    """Return the format of the run and its readers with their files, rollouts first.

    Of several rollout formats the one with most files wins; the others are a problem, and so are
    files that nobody reads. Raises `InputError` when there is nothing to read.
    """
    rollouts, scalars = found.of_kind("rollouts"), found.of_kind("scalars")
    if not rollouts and not scalars:
        raise InputError(_nothing(found))
    found.unknown = [path for path in found.unknown if not _companion(path, rollouts)]
    _report(found, builder)
    if not rollouts:
        return scalars[0][0].name, scalars
    counts = Counter({})
    for reader, paths in rollouts:
        counts[reader.name] += len(paths)
    name = counts.most_common(1)[0][0]
    chosen = [pair for pair in rollouts if pair[0].name == name]
    for reader, paths in rollouts:
        if reader.name != name:
            message = f"rollouts of another format, {reader.name}; {name} has more files here"
            _tell(builder, paths, f"{message}. Choose with --format")
    return name, [(reader, _training(reader, paths, builder)) for reader, paths in chosen] + scalars


def _companion(path: Path, rollouts: list[tuple[Reader, list[Path]]]) -> bool:
    """Return whether a file is one that a format keeps beside its rollouts."""
    patterns = [one for reader, _ in rollouts for one in getattr(reader, "companions", ())]
    return any(fnmatchcase(path.name, pattern) for pattern in patterns)


def _training(reader: Reader, paths: list[Path], builder: RolloutBuilder) -> list[Path]:
    """Leave dumps of validations out where there are others."""
    validation = [path for path in paths if _VALIDATION.fullmatch(path.parent.name)]
    training = [path for path in paths if path not in set(validation)]
    if validation and training:
        _tell(builder, validation, "dumps of validations, left out; name the folder to read them")
        paths = training
    run_of = getattr(reader, "run_of", lambda path: path.parent)
    folders = list(dict.fromkeys(str(run_of(path)) for path in paths))
    if len(folders) > 1:
        shown = ", ".join(folders[:_LISTED])
        builder.infer(f"one run: the files of {len(folders)} folders ({shown}) were read together")
    return paths


def _report(found: Selection, builder: RolloutBuilder) -> None:
    for path, why in found.unreadable:
        builder.problem(path, 0, f"cannot be read: {why}")
    if found.pickled:
        _tell(builder, found.pickled, pickles.advice(found.pickled))
    if found.unknown:
        message = (
            f"neither rollouts nor metrics in a known format; left out {_columns(found.unknown)}"
        )
        _tell(builder, found.unknown, message.rstrip())


def _tell(builder: RolloutBuilder, paths: list[Path], message: str) -> None:
    more = f" ({len(paths)} files: {_names(paths)})" if len(paths) > 1 else ""
    builder.problem(paths[0], 0, message + more)


def _nothing(found: Selection) -> str:
    parts = [f"{path} cannot be read: {why}" for path, why in found.unreadable]
    if found.pickled:
        parts.append(f"{_names(found.pickled)}: {pickles.advice(found.pickled)}")
    if found.unknown:
        formats = ", ".join(dict.fromkeys(one.name for one in readers()))
        parts.append(
            f"no rollouts or metrics in {_names(found.unknown)} {_columns(found.unknown)}".rstrip()
            + f". Known are the formats {formats}; generic is JSONL, CSV or Parquet with a row per "
            "rollout and a column reward"
        )
    return "; ".join(parts) or "nothing to read"


def _columns(paths: list[Path]) -> str:
    """Return the columns of the first file that is a table, and how to name them; else nothing."""
    from buttress.logs.formats.tables import columns_of

    for path in paths[:_LISTED]:
        columns = columns_of(path)
        if columns:
            more = f" and {len(columns) - _COLUMNS} more" if len(columns) > _COLUMNS else ""
            named = ", ".join(columns[:_COLUMNS]) + more
            return (
                f"({path.name} has the columns {named}; if they are rollouts, say which is which: "
                "--map reward=COLUMN --map group=COLUMN) "
            )
    return ""


def _names(paths: list[Path]) -> str:
    names = ", ".join(str(path) for path in paths[:_LISTED])
    more = len(paths) - _LISTED
    return f"{names} and {more} more" if more > 0 else names

"""SQLite files of trackers: opened to read only, hostile or damaged or in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from buttress.logs.builder import RolloutBuilder

START = b"SQLite format 3\0"
SUFFIXES = (".db", ".sqlite", ".sqlite3")

_PATIENCE = 2.0  # seconds for a writer to finish
_WAL = b"\x02\x02"  # bytes 18 and 19 of a file that has a write-ahead log
_LOCKED = "another process is writing it: read again later, or read a copy"
_BROKEN = "the database is damaged; try sqlite3 FILE .recover, or read a copy of it"


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """Open a database that nothing can be written to; raises `sqlite3.Error`.

    Without a write-ahead log of its own such a file is read as it lies, since SQLite would make a
    log beside it.
    """
    with path.open("rb") as file:
        start = file.read(20)
    log = path.with_name(path.name + "-wal")
    still = start[18:20] == _WAL and not (log.exists() and log.stat().st_size)
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        try:
            yield connection
        except UnicodeDecodeError as fault:  # SQLite quotes what is broken, and that is no text
            raise sqlite3.DatabaseError("its schema is no text") from fault


def columns(path: Path, table: str) -> set[str] | None:
    """Return the columns of a table, none where there is no such; None for a broken database."""
    try:
        with opened(path) as connection:
            return columns_of(connection, table)
    except (sqlite3.Error, OSError):
        return None


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a real table, none of a view."""
    real = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    if not connection.execute(real, (table,)).fetchone()[0]:
        return set()
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def guarded(path: Path, builder: RolloutBuilder, read: Callable[[], None]) -> None:
    """Call a function that reads a database; what breaks it is a problem of the builder."""
    try:
        read()
    except sqlite3.Error as fault:
        locked = "lock" in str(fault) or "busy" in str(fault)
        remedy = _LOCKED if locked else _BROKEN
        builder.problem(path, 0, f"cannot be read on: {fault}; {remedy}")
    except OSError as fault:
        builder.problem(path, 0, f"cannot be read: {fault.strerror or fault}")

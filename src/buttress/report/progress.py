"""Progress of reading, on standard error, for anything that takes more than a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def reading(*, quiet: bool = False) -> Generator[Callable[[int, int], None] | None]:
    """Give a function ``(bytes done, bytes in all)`` that draws a bar once a second has passed.

    Gives None where there is nobody to look: `quiet`, or standard error is not a terminal.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    bar = Progress(
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    start, task = time.monotonic(), bar.add_task("reading", total=None)

    def advance(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - start > PATIENCE:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()

"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 30.0  # seconds between two lines
Advance = Callable[[int], None]


@contextmanager
def counting(
    label: str, done: int, total: int, *, console: Console | None = None
) -> Generator[Advance]:
    """Give a function that takes the number of things done so far.

    Parameters
    ----------
    label
        What is counted.
    done, total
        Where it starts and ends.
    """
    console = console or Console(stderr=True)
    if console.is_terminal:
        with _bar(label, done, total, console) as advance:
            yield advance
        return
    last = time.monotonic()

    def say(now: int) -> None:
        nonlocal last
        if now >= total or time.monotonic() - last >= EVERY:
            last = time.monotonic()
            console.print(f"{label} {now:,}/{total:,}", highlight=False, markup=False)

    yield say


@contextmanager
def _bar(label: str, done: int, total: int, console: Console) -> Generator[Advance]:
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(label, total=total, completed=done)
    with bar:
        yield lambda now: bar.update(task, completed=now)

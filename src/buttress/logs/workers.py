"""Large logs are read by several processes, a share of the files each.

The processes are started as programs of their own and not forked or spawned: a fork would copy the
threads of torch and Polars, and a spawn would run the user's script again. They share a hash seed,
so that equal completions have equal fingerprints.
"""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock, local
from typing import Any

from buttress.logs import prose
from buttress.logs.builder import Part, RolloutBuilder
from buttress.logs.files import COMPRESSED
from buttress.logs.reader import Reader, ReadOptions

# A process is worth starting for so many bytes; a start costs about as much as reading a third.
SHARE = 128 << 20
# After so many bytes it hands over, so that parts are joined while others are still read.
TURN = 1 << 30
MOST = 8
PACKED = 6  # a compressed byte counts as so many

_advancing = Lock()
_SERVE = "from buttress.logs.workers import serve; serve()"


def read_files(
    reader: Reader, paths: Sequence[Path], builder: RolloutBuilder, options: ReadOptions
) -> None:
    """Let a reader read files, in several processes where they are large.

    ``BUTTRESS_WORKERS`` sets the number of processes; 1 reads in this one.
    """
    sizes = [path.stat().st_size * (PACKED if path.suffix in COMPRESSED else 1) for path in paths]
    count = _processes(sizes) if getattr(reader, "file_by_file", False) else 1
    if count < 2:
        reader.read(paths, builder, options)
        return
    turns = -(-sum(sizes) // (count * TURN)) or 1
    shares = _shares(paths, sizes, min(count * turns, len(paths)))
    seed = secrets.randbits(32)
    workers, threads = _Workers(seed), ThreadPoolExecutor(count)
    try:
        parts = threads.map(
            lambda at: workers.ask(reader, shares[at], builder, at), range(len(shares))
        )
        for share, part in zip(shares, parts, strict=True):
            if part is None:  # the process died; nothing of its share was taken
                reader.read(share, builder, options)
            else:
                builder.absorb(part)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        workers.end()


def _processes(sizes: Sequence[int]) -> int:
    """Return how many processes are to read files of these sizes."""
    given = os.environ.get("BUTTRESS_WORKERS", "")
    count = int(given) if given.isdecimal() else min(_idle_cores(), MOST, sum(sizes) // SHARE)
    return min(count, len(sizes)) if sys.executable else 1


def _shares(paths: Sequence[Path], sizes: Sequence[int], count: int) -> list[list[Path]]:
    """Cut the files, in their order, into so many runs of about equal size."""
    total, done = sum(sizes) or 1, 0
    shares: list[list[Path]] = [[] for _ in range(count)]
    for path, size in zip(paths, sizes, strict=True):
        # the share in which the middle of the file falls
        shares[min((2 * done + size) * count // (2 * total), count - 1)].append(path)
        done += size
    return [share for share in shares if share]


def _idle_cores() -> int:
    """Return the cores that this process may use; 1 where others keep them all busy."""
    if not hasattr(os, "sched_getaffinity"):  # not Linux
        return os.cpu_count() or 1
    busy = os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
    return 1 if busy else len(os.sched_getaffinity(0))


class _Workers:
    """One process for each thread that asks; it serves one share after the other."""

    def __init__(self, seed: int) -> None:
        # it has to find this very package, however this process found it
        path = os.pathsep.join(filter(None, sys.path))
        self._environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": path}
        self._own = local()
        self._started: list[subprocess.Popen[bytes]] = []

    def ask(
        self, reader: Reader, paths: list[Path], builder: RolloutBuilder, at: int
    ) -> Part | None:
        """Let another process read; None when it could not."""
        kind = type(reader)
        task = (kind.__module__, kind.__qualname__, paths, builder.options, at)
        try:
            process = self._process()
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            while isinstance(answer := pickle.load(process.stdout), int):
                with _advancing:
                    builder.advance(answer)
            return answer
        except (OSError, EOFError, pickle.PickleError):
            self._own.process = None  # the next share gets a new one
            return None

    def end(self) -> None:
        """End all processes, whatever they are doing."""
        for process in self._started:
            process.kill()
            with suppress(OSError):  # what stood in its buffer has no reader left
                process.__exit__(None, None, None)

    def _process(self) -> Any:
        process = getattr(self._own, "process", None)
        if process is None:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
            )
            self._own.process = process
            self._started.append(process)
        return process


def serve() -> None:
    """Read shares: tasks come on standard input, their rollouts go to standard output."""
    while True:
        try:
            module, name, paths, options, at = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        prose.start_unknown(at << 48)
        builder = RolloutBuilder(options, _send)
        getattr(import_module(module), name)().read(paths, builder, options)
        _send(builder.part())


def _send(answer: Any) -> None:
    pickle.dump(answer, sys.stdout.buffer, protocol=pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()

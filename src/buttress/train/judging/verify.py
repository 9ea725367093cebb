"""Is a completion right? Judged in other processes, with a limit on the time of every check."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, Any, NamedTuple, Self

import msgspec

from buttress.errors import ButtressError, UsageError
from buttress.logs.prose import text_of
from buttress.train.judging.verify_worker import Check, Reply, Setup

JUDGES = ("math", "exact", "gym")
START = 300.0  # seconds for the imports of a judge
_WORKERS = 8


class Verdict(NamedTuple):
    """A score, 1 for right and 0 for wrong; None where unknown, with the reason."""

    score: float | None
    fault: str = ""


class Verifier:
    """Judges completions; use it as a context manager.

    Parameters
    ----------
    use
        ``math`` (math-verify), ``exact``, ``gym`` (the scorer of reasoning-gym), or
        ``module:function``: a reward function as TRL calls it, with ``prompts``, ``completions``
        and every column, each a list of one entry.
    options
        Options of the judge, for example ``pattern`` of ``exact``.
    timeout
        Seconds for one check. What lasts longer has no score.
    workers
        Processes; by default as many as this rank has cores, at most 8.

    Raises
    ------
    UsageError
        For an unknown judge, or one that cannot be had; said before anything is sampled.

    Notes
    -----
    A check that lasts, or a process that dies, costs itself alone: the process is started anew. A
    completion without an answer is wrong (0); what could not be judged is unknown (None).
    """

    def __init__(
        self,
        use: str = "math",
        options: Mapping[str, Any] | None = None,
        *,
        timeout: float = 5.0,
        workers: int | None = None,
    ) -> None:
        if use not in JUDGES and ":" not in use:
            raise UsageError.unknown("judge", use, [*JUDGES, "module:function"])
        if not timeout > 0:
            raise UsageError(f"the time limit of a check must be above 0 seconds; got {timeout}")
        self.use = use
        self._setup = Setup(use, dict(options or {}), timeout)
        count = workers or max(1, min(_WORKERS, _cores()))
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers = [_Worker(self._setup) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)
        try:
            self._workers[0].start()
        except BaseException:
            self.close()
            raise
        for worker in self._workers:
            self._idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(
        self, completions: Sequence[Any], rows: Sequence[Mapping[str, Any]]
    ) -> list[Verdict]:
        """Return one verdict per completion; `rows` has the columns of the problem of each."""
        return list(self._pool.map(self._judge, completions, rows))

    def scores(
        self, completions: Sequence[Any], rows: Sequence[Mapping[str, Any]]
    ) -> list[float | None]:
        """Return the scores alone, as a reward function does."""
        return [verdict.score for verdict in self(completions, rows)]

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end()

    def _judge(self, completion: Any, row: Mapping[str, Any]) -> Verdict:
        worker = self._idle.get()
        try:
            return worker.judge(text_of(completion) or "", row)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, started when it is needed and again after it had to be ended."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._replies: SimpleQueue[bytes] = SimpleQueue()
        self._ended = False  # by itself

    def start(self) -> None:
        """Start the process and wait until the judge is there."""
        self._replies = SimpleQueue()
        self._process = subprocess.Popen(
            # -P: a file called datasets.py where the user stands must not shadow the package
            [sys.executable, "-P", "-m", "buttress.train.judging.verify_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        listener = threading.Thread(
            target=_listen, args=(self._process.stdout, self._replies), daemon=True
        )
        listener.start()
        self._send(self._setup)
        reply = self._receive(START)
        if reply is None:
            self.end()
            raise ButtressError(f"the judge {self._setup.use} did not start; see above for why")
        if reply.fault:
            self.end()
            raise UsageError(reply.fault)

    def judge(self, text: str, row: Mapping[str, Any]) -> Verdict:
        """Return the verdict on one completion."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        self._send(Check(text.encode("utf-8", "replace").decode(), dict(row)))
        reply = self._receive(self._setup.seconds)
        if reply is not None:
            return Verdict(reply.score, reply.fault)
        died = self._ended
        self.end()
        how = "its process died" if died else f"it took more than {self._setup.seconds:g} seconds"
        return Verdict(None, how)

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _send(self, message: Setup | Check) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # a dead process is noticed when it does not reply
                self._process.stdin.write(msgspec.json.encode(message, enc_hook=str) + b"\n")
                self._process.stdin.flush()

    def _receive(self, seconds: float) -> Reply | None:
        try:
            line = self._replies.get(timeout=seconds)
            self._ended = not line
            return msgspec.json.decode(line, type=Reply) if line else None
        except (Empty, msgspec.MsgspecError):
            return None


def said(faults: Mapping[str, int]) -> str:
    """Return why completions could not be judged, the most frequent reason first.

    >>> said({"it took more than 5 seconds": 2, "ValueError: x (f.py:3)": 7})
    '7 ValueError: x (f.py:3); 2 it took more than 5 seconds'
    """
    return "; ".join(f"{count} {why}" for why, count in Counter(faults).most_common(3))


def _listen(pipe: IO[bytes] | None, replies: SimpleQueue[bytes]) -> None:
    """Hand on every line, and an empty one at the end."""
    if pipe is not None:
        with suppress(OSError, ValueError):
            for line in pipe:
                replies.put(line)
    replies.put(b"")


def _cores() -> int:
    """Return the cores of this rank."""
    return (os.cpu_count() or 1) // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))

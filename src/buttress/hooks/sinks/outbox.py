"""Rows on their way to a sink: a queue, a thread, a time limit, back-off, and a count of losses."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

logger = logging.getLogger("buttress.sinks")


class Row(NamedTuple):
    """What a monitor sends after a step."""

    step: int
    metrics: Mapping[str, float]  # NaN for unknown
    events: Sequence[Mapping[str, Any]] = ()


class Sink(Protocol):
    """Where rows go. Both methods run in a thread of their own and may take long or raise."""

    def write(self, row: Row) -> None:
        """Take a row."""
        ...

    def close(self) -> None:
        """Finish up."""
        ...


class Outbox:
    """Hands rows to one sink without ever waiting for it.

    A row that the sink refuses (by an exception) is dropped and counted; after each refusal in a
    row the sink is left alone for twice as long, up to `longest` seconds. A sink that does not come
    back within `limit` seconds loses its thread and that row; after `lives` lost threads it is
    given up. When the queue is full the oldest row is dropped and counted.

    Attributes
    ----------
    written, dropped
        Rows that arrived, and rows that did not.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        limit: float = 10.0,
        size: int = 256,
        first: float = 1.0,
        longest: float = 60.0,
        lives: int = 3,
    ) -> None:
        self.name = type(sink).__name__
        self.written = 0
        self.dropped = 0
        self._sink, self._limit, self._size = sink, limit, size
        self._first, self._longest, self._lives = first, longest, lives
        self._queue: deque[Row] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._since: float | None = None  # when the write that is under way began
        self._closing = False
        self._closed = False
        self._told: set[str] = set()

    @property
    def given_up(self) -> bool:
        """Whether the sink hung so often that nothing is sent any more."""
        return self._lives <= 0

    def put(self, row: Row) -> None:
        """Leave a row for the sink; returns at once."""
        with self._change:
            self._look_after()
            if self.given_up or self._closing:
                self.dropped += 1
                return
            if len(self._queue) >= self._size:
                self._queue.popleft()
                self.dropped += 1
                self._tell("full", "cannot keep up; the oldest rows are dropped")
            self._queue.append(row)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name=f"buttress {self.name}", daemon=True
                )
                self._thread.start()
            self._change.notify_all()

    def close(self, wait: float | None = None) -> None:
        """Let the sink finish, for at most `wait` seconds (the time limit by default).

        What is still queued then counts as dropped.
        """
        end = time.monotonic() + (self._limit if wait is None else wait)
        with self._change:
            self._closing = True
            self._change.notify_all()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._work, name=f"buttress {self.name}", daemon=True
                )
                self._thread.start()
            while not self._closed and time.monotonic() < end:
                self._change.wait(max(0.0, min(end - time.monotonic(), 0.1)))
            self._closed = True
            self.dropped += len(self._queue)
            self._queue.clear()
        if self.dropped:
            self._tell("total", f"lost {self.dropped} rows of this run, {self.written} arrived")

    # --- the thread ---

    def _work(self) -> None:
        me, pause = threading.current_thread(), 0.0
        while True:
            row = self._next(me, pause)
            if row is None:
                break
            fault = _attempt(lambda row=row: self._sink.write(row))
            with self._change:
                if self._thread is not me:
                    return  # too late: the row is counted as lost
                self._since = None
                pause = self._note(fault, pause)
        with self._change:
            if self._thread is not me:
                return
            self._since = time.monotonic()
        _attempt(self._sink.close)
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _next(self, me: threading.Thread, pause: float) -> Row | None:
        """Wait out the pause, then for a row; None when there will be none."""
        end = time.monotonic() + pause
        with self._change:
            while self._thread is me:
                left = end - time.monotonic()
                if left > 0 and not self._closing:
                    self._change.wait(left)
                elif self._queue and not self._closed:
                    self._since = time.monotonic()
                    return self._queue.popleft()
                elif self._closing:
                    return None
                else:
                    self._change.wait()
        return None

    def _note(self, fault: BaseException | None, pause: float) -> float:
        if fault is None:
            self.written += 1
            return 0.0
        self.dropped += 1
        self._tell(
            type(fault).__name__,
            f"failed ({type(fault).__name__}: {fault}); its row is dropped, later ones are tried",
        )
        return min(max(2 * pause, self._first), self._longest)

    def _look_after(self) -> None:
        """Take the thread from a sink that hangs."""
        if self._since is None or time.monotonic() - self._since <= self._limit:
            return
        self._since, self._thread = None, None
        self._lives -= 1
        self.dropped += 1
        if self.given_up:
            self.dropped += len(self._queue)
            self._queue.clear()
        end = "it gets no more rows" if self.given_up else "its row is dropped"
        self._tell(f"hang {self._lives}", f"did not return within {self._limit:g} s; {end}")

    def _tell(self, kind: str, what: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            logger.warning("buttress sink %s %s", self.name, what)


class Post:
    """The outboxes of one run: one row per step, sent when the step is over."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.boxes = [Outbox(sink) for sink in sinks]
        self.due: int | None = None  # the step whose row was not sent yet

    def __bool__(self) -> bool:
        return bool(self.boxes)

    @property
    def lost(self) -> int:
        """Rows that did not arrive, over all sinks."""
        return sum(box.dropped for box in self.boxes)

    def send(
        self, metrics: Callable[[], Mapping[str, float]], news: Callable[[], Sequence[Any]]
    ) -> None:
        """Send the row that is due."""
        step, self.due = self.due, None
        if step is None or not self.boxes:
            return
        row = Row(step, metrics(), [event.as_dict() for event in news()])
        for box in self.boxes:
            box.put(row)

    def close(self, wait: float | None = None) -> None:
        """Let every sink finish, for at most `wait` seconds each."""
        for box in self.boxes:
            box.close(wait)


def _attempt(call: Callable[[], None]) -> BaseException | None:
    try:
        call()
    except BaseException as fault:  # SystemExit too: it would end our thread, not the sink's fault
        return fault
    return None

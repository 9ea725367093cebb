"""What of TRL's completions files is new, and what is training.

TRL logs from a queue that is as long as one generation and never emptied. So a file repeats the
one before it where nothing was generated in between, an evaluation pushes its rows into the same
queue and the oldest rows out, and a generation that no file was written for is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.logs.frameworks.trl.files import Dump
from buttress.logs.trackers.trainer_state import TrainerLog

# Means are logged in float32.
_PRECISION = 1e-5


@dataclass(slots=True)
class Stream:
    """The training rows of one run.

    Attributes
    ----------
    dumps
        What is left of the dumps, by step.
    repeated
        Rows that an earlier dump holds already.
    evaluation
        Rows of evaluations, left out.
    unclear
        Dumps in which training and evaluation could not be told apart, left out.
    """

    dumps: list[Dump] = field(default_factory=list)
    repeated: int = 0
    evaluation: int = 0
    unclear: list[Dump] = field(default_factory=list)


def training_rows(dumps: Sequence[Dump], log: TrainerLog | None) -> Stream:
    """Return the rows of the training generations, each once; `dumps` ascend by step."""
    stream, fresh = Stream(), []
    known: list[Dump] = []  # evaluations that the queue itself shows
    before: Dump | None = None
    for dump in dumps:
        shared = _overlap(before, dump) if before is not None else 0
        if (
            before is not None
            and log
            and shared == len(dump)
            and log.generated(before.step, dump.step)
        ):
            shared = 0  # a generation that equals the one before it
        before = dump
        stream.repeated += shared
        if 0 < shared < len(dump):
            # a training generation fills the queue: what fills a part of it is an evaluation
            known.append(dump.rows(shared, len(dump)))
        elif dump.step <= 0:
            stream.evaluation += len(dump) - shared
        elif shared == 0 and len(dump):
            fresh.append(dump)
    stream.evaluation += sum(map(len, known))
    _leave_out_evaluations(fresh, known, log.evaluations if log else {}, stream)
    return stream


def lost_interval(steps: Iterable[int], stream: Stream, log: TrainerLog | None) -> int | None:
    """Return n where TRL wrote a generation only every n-th step and the others are lost.

    Two generations in one interval show in the logged means, which are taken over both, while the
    file holds the second. Without logged means, or with means that never change, the interval
    between the files is taken (our reading: one generation per step).
    """
    gaps = np.diff(np.unique(list(steps)))
    usual = int(np.bincount(gaps).argmax()) if len(gaps) else 1
    interval = (log and log.logging_steps) or usual
    if interval <= 1:
        return None
    if log is not None and _means_vary(log):
        compared = [
            same_means(dump, log.generations[dump.step])
            for dump in stream.dumps
            if not dump.headless and dump.step in log.generations
        ]
        if compared and all(compared):
            return None
    return interval


def _overlap(before: Dump, dump: Dump) -> int:
    """Return how many rows at the head of a dump are the tail of the one before it.

    A few equal rows are no proof: a policy may always say the same. Two different ones are.
    """
    head = dump.digest
    if not len(head):
        return 0
    for start in np.flatnonzero(before.digest == head[0]):
        tail = before.digest[start:]
        if len(tail) <= len(head) and (tail == head[: len(tail)]).all():
            return len(tail) if len(np.unique(tail)) > 1 else 0
    return 0


def _leave_out_evaluations(
    fresh: Sequence[Dump],
    known: Sequence[Dump],
    evaluations: Mapping[int, Mapping[str, Any]],
    stream: Stream,
) -> None:
    """Cut the evaluations off the dumps; each has the same size."""
    touched = [dump for dump in fresh if dump.step in evaluations]
    # an evaluation walks through the same prompts each time
    same = _common_tail([dump.prompt for dump in (*known, *touched)])
    sizes = [{len(one)} for one in known]
    sizes += [set(_tails(dump, evaluations[dump.step])) for dump in touched]
    agreed = {size for size in set.intersection(*sizes) if size <= same} if sizes else set()
    # without the trainer's log, the prompts tell
    prompts = known[0].prompt if known and not evaluations else None
    for dump in fresh:
        if dump.step in evaluations and not agreed:
            stream.unclear.append(dump)
            continue
        size = 0
        if dump.step in evaluations:
            size = max(agreed)
        elif prompts is not None and np.array_equal(dump.prompt[-len(prompts) :], prompts):
            size = len(prompts)
        stream.evaluation += size
        left = len(dump) - size
        if left:
            stream.dumps.append(dump.rows(0, left, headless=size > 0))


def _common_tail(columns: Sequence[NDArray[Any]]) -> int:
    """Return how many entries at the end all columns share."""
    length = min(map(len, columns), default=0)
    if not length:
        return 0
    ends = np.stack([column[len(column) - length :] for column in columns])
    differ = np.flatnonzero((ends != ends[0]).any(axis=0))
    return length - 1 - int(differ[-1]) if len(differ) else length


def _tails(dump: Dump, record: Mapping[str, Any]) -> Iterator[int]:
    """Yield the sizes of a tail that has the means of the evaluation and begins with a prompt."""
    n = len(dump)
    begins = np.append(True, dump.prompt[1:] != dump.prompt[:-1])[::-1]
    fits = begins.copy()
    means = logged_means(record)
    for name, logged in means.items():
        values = dump.numbers.get(name)
        if values is None:
            return
        values = values[::-1]
        known = np.isfinite(values)
        count = np.cumsum(known)
        mean = np.cumsum(np.where(known, values, 0.0)) / np.maximum(count, 1)
        fits &= (count > 0) & (np.abs(mean - logged) <= _PRECISION * max(1.0, abs(logged)))
    if means:
        yield from (np.arange(1, n + 1)[fits]).tolist()


def logged_means(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the logged mean of each reward function; what is null is absent."""
    means = {}
    for key, value in record.items():
        name = key.removeprefix("rewards/").removesuffix("/mean")
        if key == f"rewards/{name}/mean" and isinstance(value, int | float) and value == value:
            means[name] = float(value)
    return means


def _means_vary(log: TrainerLog) -> bool:
    seen: dict[str, float] = {}
    for record in log.generations.values():
        for name, mean in logged_means(record).items():
            if abs(seen.setdefault(name, mean) - mean) > _PRECISION * max(1.0, abs(mean)):
                return True
    return False


def same_means(dump: Dump, record: Mapping[str, Any]) -> bool:
    """Return whether a dump has the means of its record: the record is of this generation only."""
    for name, logged in logged_means(record).items():
        values = dump.numbers.get(name)
        if values is None or not np.isfinite(values).any():
            continue
        if abs(np.nanmean(values) - logged) > _PRECISION * max(1.0, abs(logged)):
            return False
    return True

"""ms-swift's ``completions.jsonl`` line by line: what each adds to the lines before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.logs.formats.wide import Row, column, listed, steps_of
from buttress.logs.frameworks.trl.files import Dump, Loader
from buttress.logs.frameworks.trl.groups import blocks
from buttress.logs.prose import text_digest, text_of
from buttress.logs.trackers.trainer_state import TrainerLog
from buttress.logs.values import Place, numbers

# `gen_step` is what the Megatron backend writes.
STEPS = ("step", "gen_step")
ADVANTAGE = "advantages"
_BEFORE_REWARDS = (*STEPS, "prompt", "completion")
UNKNOWN = 0
_LATE = ("entropy",)  # filled in while the lines of one generation are written
_NUMBER = {int, float, bool, Decimal, type(None)}


class Lines:
    """Turns lines into dumps as those of TRL, whose trainer ms-swift's is.

    Attributes
    ----------
    loader
        Prompts, groups and reward columns that were seen.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._builder = loader.builder

    def read(self, path: Path) -> Iterator[Dump]:
        """Yield a dump for each line, in the order of the file."""
        done = 0
        for line, row in steps_of(path, self._builder):
            count = len(listed(row, "completion"))
            if count:
                yield self._dump(path, line, row, done, count)
                done += count
            else:
                kind = "no list of completions, left out"
                self._builder.problem(path, line, kind, kind=kind)

    def _dump(self, path: Path, line: int, row: Row, done: int, count: int) -> Dump:
        complain = partial(self._builder.problem, path, line)
        prompts = self._prompts(column(row, "prompt", count, complain), count)
        completions = np.fromiter((hash(_text(one)) for one in row["completion"]), np.int64, count)
        place = Place(self._builder.problems, str(path), np.full(count, line, dtype=np.int32))
        table = {}
        for name in self._numeric(row):
            values = column(row, name, count, complain)
            if values is not None:
                known = np.asarray(numbers(place, name, values), dtype=np.float64)
                table["advantage" if name == ADVANTAGE else name] = known
        return Dump(
            path,
            self._step(row, count, complain),
            np.arange(done, done + count) + 1,
            _digests([prompts, completions.view(np.uint64)], table.values()),
            prompts,
            completions.view(np.uint64),
            table,
        )

    def _prompts(self, prompts: list[Any] | None, count: int) -> NDArray[np.uint64]:
        known: dict[str, int] = {}
        for text in dict.fromkeys(map(_text, prompts or ())):
            digest = text_digest(text)
            known[text] = int(digest, 16)
            self.loader.prompts.setdefault(known[text], digest)
        if prompts is None:
            self.loader.prompts[UNKNOWN] = None
            return np.full(count, UNKNOWN, dtype=np.uint64)
        return np.fromiter((known[_text(one)] for one in prompts), np.uint64, count)

    def _numeric(self, row: Row) -> list[str]:
        """Return reward functions and advantages, told by their place, and plain numbers."""
        names = [name for name in row if name not in (*_BEFORE_REWARDS, *_LATE)]
        if ADVANTAGE not in names:
            return [name for name in names if _plain(row[name])]
        rewards = names[: names.index(ADVANTAGE)]
        self.loader.floats |= dict.fromkeys(rewards)
        others = [name for name in names[len(rewards) + 1 :] if _plain(row[name])]
        return [*rewards, ADVANTAGE, *others]

    def _step(self, row: Row, count: int, complain: Any) -> int:
        name = next((one for one in STEPS if one in row), STEPS[0])
        first = (column(row, name, count, complain) or [None])[0]
        try:
            return int(first)
        except (TypeError, ValueError, OverflowError):
            complain(f"{name} is no whole number; taken as step 0")
            return 0


@dataclass
class Generations:
    """The training rollouts of one file, each once.

    ms-swift logs from a queue as long as one generation and never emptied. So a line may repeat
    the one before it, wholly (no generation in between, or the end of the training) or as its
    beginning (with ``log_entropy``, which waits for the entropies). An evaluation writes a line
    of its own at a step that has one already, or before the first.
    """

    dumps: list[Dump] = field(default_factory=list)
    repeated: int = 0
    evaluation: int = 0
    restarts: int = 0

    @classmethod
    def of(cls, dumps: Iterable[Dump], log: TrainerLog | None) -> Generations:
        """Return what the lines of a file hold; the trainer's log tells of equal generations."""
        found, before = cls(), None
        for dump in dumps:
            found._take(dump, before, log)
            before = dump
        return found

    def _take(self, dump: Dump, before: Dump | None, log: TrainerLog | None) -> None:
        shared = _shared(before, dump) if before is not None else 0
        same_step = before is not None and before.step == dump.step
        if before is not None and not same_step:
            if shared == len(dump) and log and log.generated(before.step, dump.step):
                shared = 0
            self.repeated += shared
        if dump.step <= 0 or (same_step and shared < len(dump)):
            self.evaluation += len(dump) - shared
        elif before is not None and 0 < shared == len(before) < len(dump) and self.dumps:
            self.dumps[-1] = replace(dump, step=self.dumps[-1].step)
        elif shared < len(dump):
            self.restarts += before is not None and dump.step < before.step
            self.dumps.append(dump.rows(shared, len(dump)))


def grouped(dumps: Sequence[Dump], size: int, loader: Loader, prefix: str) -> list[Dump]:
    """Return the dumps with blocks of `size` rows as groups; each dump of a step has its own."""
    found = []
    times: Counter[int] = Counter()
    for dump in dumps:
        times[dump.step] += 1
        again = f" of restart {times[dump.step] - 1}" if times[dump.step] > 1 else ""
        number = blocks(dump, size)
        labels = {one: f"{prefix}{one}{again}" for one in np.unique(number).tolist()}
        codes = {one: len(loader.groups) + at for at, one in enumerate(labels)}
        loader.groups.update({codes[one]: label for one, label in labels.items()})
        group = np.array([codes[one] for one in number.tolist()], dtype=np.uint64)
        found.append(replace(dump, group=group))
    return found


def _text(value: Any) -> str:
    return text_of(value) or ""


def _plain(values: Any) -> bool:
    return isinstance(values, list) and {type(one) for one in values} <= _NUMBER


def _digests(
    hashes: list[NDArray[np.uint64]], columns: Iterable[NDArray[np.float64]]
) -> NDArray[np.uint64]:
    """Return one hash per row, equal for equal rows."""
    mixed = np.zeros(len(hashes[0]), dtype=np.uint64)
    parts = [np.where(np.isnan(one), np.inf, one + 0.0).view(np.uint64) for one in columns]
    for part in [*hashes, *parts]:
        mixed = (mixed ^ part) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _shared(before: Dump, dump: Dump) -> int:
    """Return how many rows at the head of a line are the tail of the line before it.

    A few equal rows are no proof: a policy may always say the same. Two different ones are.
    """
    head = dump.digest
    for start in np.flatnonzero(before.digest == head[0]):
        tail = before.digest[start:]
        if len(tail) <= len(head) and (tail == head[: len(tail)]).all():
            whole = len(tail) == len(head) and before.step == dump.step
            return len(tail) if whole or len(np.unique(tail)) > 1 else 0
    return 0

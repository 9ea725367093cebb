"""Tries and successes of every prompt, in memory that is bounded however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import Groups, Tolerance
from buttress.measures import KeyedCounts, Levels, PromptCounts, PromptTable
from buttress.measures.tables import number_prompts

COLUMNS = 6  # of `PromptCounts`


class PromptStore:
    """`PromptCounts` that grow in place.

    Up to `limit` prompts are kept. With more, those with the smallest hashes stay: a fair sample of
    all prompts, whose counts are complete, and the same one whatever the order of the batches and
    however they were spread over ranks. `seen` then estimates how many prompts there are.

    Source of the sample and of the estimate: Z. Bar-Yossef et al., RANDOM 2002 (k minimum values).
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.levels = Levels(np.nan, np.nan)
        self.judged = 0
        self._place: dict[str, int] = {}
        self._names: list[str] = []  # by place
        self._rows = np.zeros((64, COLUMNS))
        self._hashes: dict[str, int] | None = None  # only once there are more than `limit`
        self._highest = 1 << 64

    def __len__(self) -> int:
        return len(self._place)

    @property
    def sampled(self) -> bool:
        """Whether there were more prompts than are kept."""
        return self._hashes is not None

    @property
    def seen(self) -> float:
        """Number of different prompts, estimated from the hashes once they are a sample."""
        if not self.sampled:
            return float(len(self))
        return (len(self) - 1) / (self._highest / 2**64) if len(self) > 1 else float("nan")

    def add(self, groups: Groups, tolerance: Tolerance) -> None:
        """Take in the prompts of a batch."""
        used = np.flatnonzero(np.bincount(groups.prompt + 1)[1:])
        labels = np.asarray(groups.prompt_labels, dtype=object)[used].tolist()
        names = labels if set(map(type, labels)) == {str} else list(map(str, labels))
        local = np.full(len(groups.prompt_labels) + 1, -1, dtype=np.int64)
        local[used] = np.arange(len(used))
        # a prompt may stand among the names of several batches: its rows are added up below
        number_prompts(groups, names, local[groups.prompt])
        self.add_counts(PromptCounts.of(groups, tolerance))

    def add_counts(self, counts: PromptCounts) -> None:
        """Take in the counts of other prompts, or of the same ones."""
        self.levels = self.levels.union(counts.levels)
        self.judged += counts.judged
        rows = counts.counts.rows
        place = np.array(self._places(counts.counts.names), dtype=np.int64)
        if self.sampled:
            kept = place >= 0
            place, rows = place[kept], rows[kept]
        np.add.at(self._rows, place, rows)
        if len(self._place) > self.limit + self.limit // 8 + 1:  # not at every batch
            self._shrink()

    def _places(self, names: list[str]) -> list[int]:
        """Return the row of each prompt, of a new one if it has none yet; -1 if it is not kept."""
        place = self._place
        try:
            return list(map(place.__getitem__, names))
        except KeyError:
            fresh = [name for name in names if name not in place]
        if self._hashes is not None:
            fresh = [name for name in fresh if self._keeps(name)]
        fresh = list(dict.fromkeys(fresh))
        place.update(zip(fresh, range(len(place), len(place) + len(fresh)), strict=True))
        self._names += fresh
        if len(place) > len(self._rows):
            more = np.zeros((2 * len(place) - len(self._rows), COLUMNS))
            self._rows = np.concatenate([self._rows, more])
        return [place.get(name, -1) for name in names]

    def counts(self) -> PromptCounts:
        """Return the counts of the prompts that are kept."""
        if len(self._place) > self.limit:
            self._shrink()
        kept = KeyedCounts(list(self._names), self._rows[: len(self._place)].copy())
        return PromptCounts(kept, self.levels, self.judged)

    def table(self) -> PromptTable:
        """Return one row per prompt that is kept."""
        return self.counts().table()

    def rates(self) -> NDArray[np.float64]:
        """Return the success rate of each prompt that is kept, NaN where nothing was scored."""
        if len(self._place) > self.limit:
            self._shrink()
        unnamed = KeyedCounts([], self._rows[: len(self._place)])
        return PromptCounts(unnamed, self.levels, self.judged).table().rate

    def merge(self, other: PromptStore) -> None:
        """Take in another store."""
        if self.limit != other.limit:
            raise UsageError(f"cannot merge max_prompts={self.limit} and {other.limit}")
        theirs = other.counts()
        if other.sampled and not self.sampled:
            self._start_sampling()
        if other.sampled:
            self._highest = min(self._highest, other._highest)
            self._drop_above(self._highest)
        self.add_counts(theirs)
        if len(self._place) > self.limit:
            self._shrink()

    def _keeps(self, name: str) -> bool:
        assert self._hashes is not None
        number = _hash(name)
        if number > self._highest:
            return False
        self._hashes[name] = number
        return True

    def _start_sampling(self) -> None:
        self._hashes = {name: _hash(name) for name in self._place}

    def _shrink(self) -> None:
        if self._hashes is None:
            self._start_sampling()
        assert self._hashes is not None
        self._drop_above(sorted(self._hashes.values())[self.limit - 1])

    def _drop_above(self, highest: int) -> None:
        assert self._hashes is not None
        self._highest = highest
        names = [name for name in self._names if self._hashes[name] <= highest]
        self._rows = self._rows[[self._place[name] for name in names]]
        self._place, self._names = dict(zip(names, range(len(names)), strict=True)), names
        self._hashes = {name: self._hashes[name] for name in names}

    def state(self) -> dict[str, Any]:
        """Return plain Python objects that JSON can hold."""
        kept = self.counts()
        return {
            "names": kept.counts.names,
            "rows": kept.counts.rows.tolist(),
            "levels": [None if level != level else level for level in self.levels],
            "judged": self.judged,
            "highest": self._highest if self.sampled else None,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], limit: int) -> PromptStore:
        """Return the store that `state` was taken of; a smaller limit keeps a sample of it."""
        store = cls(limit)
        rows = np.array(state["rows"], dtype=np.float64).reshape(-1, COLUMNS)
        levels = Levels(*(np.nan if level is None else float(level) for level in state["levels"]))
        counts = KeyedCounts([str(name) for name in state["names"]], rows)
        if state["highest"] is not None:
            store._start_sampling()
            store._highest = int(state["highest"])
        store.add_counts(PromptCounts(counts, levels, int(state["judged"])))
        return store


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(errors="replace"), digest_size=8).digest())

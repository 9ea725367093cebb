"""Which columns do the rows of a file have, and where do they change?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from buttress.logs.decode import any_json
from buttress.logs.formats.lines import Block

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

Row = dict[str, Any]
# Share of the block at which rows are looked at: irrational, so that no period hides from it.
_LOOKS = (*(at * 0.6180339887 % 1 for at in range(4)), 1)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Plan:
    """How the rows of a file become rollouts.

    Attributes
    ----------
    columns
        Canonical name -> column of the file.
    constants
        Canonical name -> value that every row of the file has.
    structured
        Columns with lists or objects in place of text; set by the engine.
    example
        The row that the plan was made from; set by the engine.
    converts
        Steps from the decoded columns to those of the builder, where a format packs its own.
    """

    columns: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)
    structured: frozenset[str] = frozenset()
    example: Row = field(default_factory=dict)
    converts: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What the decoder depends on."""
        return (*self.columns.items(), self.structured)


class Planner(Protocol):
    """What a format makes of the columns of a file."""

    def __call__(self, row: Row, path: Path, *, builder: RolloutBuilder) -> Plan | None:
        """Return the plan for rows with these keys (and such values), None for no rollouts.

        The builder is told what was concluded.
        """
        ...


class Schema:
    """Follows the keys of a file's rows and keeps the plan for them.

    A few rows of each block are looked at. Once two of them need different plans, every row of
    the file is.
    """

    def __init__(self, plan: Callable[[Row], Plan | None]) -> None:
        self._plan_of = plan
        self._seen: Row = {}
        self._known: set[frozenset[str]] = set()
        self._plan: Plan | None = None
        self._mixed = False

    def parts(self, block: Block) -> Iterator[tuple[Block, Plan | None]]:
        """Yield the block with its plan; several parts where one meaning has several columns."""
        if self._mixed:
            yield from self._apart(block)
            return
        fresh = [line for line in looks(block) if keys_of(line) not in self._known]
        rows = [row for row in map(row_of, fresh) if row is not None]
        if self._plan is None and not any(map(self._plan_of, rows)):
            rows += self._first_rollout(block)
        if rows and not self._learn(rows):
            self._mixed = True
            yield from self._apart(block)
        else:
            yield block, self._plan

    def unforeseen(self, block: Block) -> bool:
        """Return whether a block has rows of other keys than those that were looked at."""
        keys = {keys_of(line) for _, line in block.lines()} - {frozenset()}
        return not self._mixed and not keys <= self._known

    def again(self, block: Block) -> Iterator[tuple[Block, Plan | None]]:
        """Yield the parts of a block after looking at every row."""
        self._mixed = True
        yield from self._apart(block)

    def _learn(self, rows: list[Row]) -> bool:
        """Make one plan for the rows seen so far and these; return whether it suits each."""
        merged = _merged(self._seen, *rows)
        plan = self._plan_of(merged)
        if any(_passes_over(plan, self._plan_of(row)) for row in rows):
            return False
        if _passes_over(plan, self._plan):
            return False
        self._seen, self._plan = merged, plan
        self._known.update(frozenset(row) for row in rows)
        return True

    def _first_rollout(self, block: Block) -> list[Row]:
        tried: set[frozenset[str]] = set()
        for _, line in block.lines():
            keys = keys_of(line)
            if keys not in tried:
                tried.add(keys)
                row = row_of(line)
                if row is not None and self._plan_of(row):
                    return [row]
        return []

    def _apart(self, block: Block) -> Iterator[tuple[Block, Plan | None]]:
        """Yield the rows of each plan; lines that suit none go with the first."""
        by_keys: dict[frozenset[str], list[int]] = {}
        for at in range(len(block)):
            by_keys.setdefault(keys_of(block.line(at)), []).append(at)
        plans: dict[tuple[Any, ...], tuple[Plan, list[int]]] = {}
        homeless: list[int] = []
        for places in by_keys.values():
            row = row_of(block.line(places[0]))
            plan = self._plan_of(row) if row else None
            if plan is None:
                homeless += places
            else:
                plans.setdefault(plan.key, (plan, []))[1].extend(places)
        if not plans:
            yield block, self._plan
            return
        next(iter(plans.values()))[1].extend(homeless)
        for plan, places in plans.values():
            yield block.pick(sorted(places)), plan


def looks(block: Block) -> list[bytes]:
    """Return a few lines of a block, spread over it, the first and the last among them."""
    return [block.near(share) for share in _LOOKS]


def keys_of(line: bytes) -> frozenset[str]:
    """Return the keys of a JSON object; empty for anything else."""
    try:
        return frozenset(_KEYS.decode(line))
    except (msgspec.MsgspecError, RecursionError):
        return frozenset(row_of(line) or ())


def row_of(line: bytes) -> Row | None:
    """Return a line as a JSON object, None where it is none."""
    try:
        found = any_json(line.decode("utf-8", "replace").encode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _merged(*rows: Row) -> Row:
    """Return every key with an example: a plain value before a list, anything before null."""
    merged: Row = {}
    for row in rows:
        for key, value in row.items():
            if _rank(value) > _rank(merged.get(key)) or key not in merged:
                merged[key] = value
    return merged


def _rank(value: Any) -> int:
    return 0 if value is None else 1 if isinstance(value, list | dict) else 2


def _passes_over(merged: Plan | None, own: Plan | None) -> bool:
    """Return whether a row has a column that the plan for all rows would pass over."""
    if own is None or merged is None:
        return False
    return any(merged.columns.get(name) != column for name, column in own.columns.items())

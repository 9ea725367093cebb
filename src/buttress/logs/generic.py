"""JSONL with the columns of the rollout table, under their own names or well-known others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from buttress.logs import files as log_files
from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import ALIASES, COMPONENT, IDENTITY, is_telling, resolve
from buttress.logs.decode import TEXTS
from buttress.logs.formats.jsonl import JsonlRollouts, Plan, Row
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan, numeric, step_of_name
from buttress.logs.trackers.metric_files import is_metrics

_LISTS = (
    "the column {} holds a list: write one line per rollout, each with its own reward, for example "
    "with Polars: frame.explode(columns).write_ndjson(path)"
)
_ARRAY = "holds one JSON array: write one object per line, for example with jq -c '.[]'"
_NO_REWARD = "no column for the reward: name it with --map reward=COLUMN; there are: {}"
_NOT_NUMERIC = "the column {} holds no numbers; {} is taken as unknown"
_NAMED_STEP = re.compile(r"\d+|.*step[_-]?\d+", re.IGNORECASE)


class GenericRollouts:
    """Reads JSONL with the columns of the rollout table."""

    name: ClassVar[str] = "generic"
    kind: ClassVar[Kind] = "rollouts"
    file_by_file: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether a row has a reward, or is an array of such rows."""
        if _is_array(head):
            return b'"reward' in head or b'"score' in head
        return any(is_rollout(row) for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the rollouts of a run."""
        engine = JsonlRollouts(builder, plan_of)
        for path in files:
            if _is_array(log_files.head(path)):
                builder.open(path)
                builder.problem(path, 1, _ARRAY)
            else:
                engine.read(path)


def is_rollout(row: Row) -> bool:
    """Return whether a row is a rollout and not a step's metrics."""
    if is_metrics(row):
        return False
    rewards = [row[name] for name in ("reward", *ALIASES["reward"]) if name in row]
    rewards += [value for name, value in row.items() if name.startswith(COMPONENT)]
    if any(numeric(value) or isinstance(value, list) for value in rewards):
        return True
    judged = rewards or any(_has(row, name) for name in ("correct", "advantage"))
    return bool(judged) and any(_has(row, name) for name in IDENTITY if name != "advantage")


def _has(row: Row, name: str) -> bool:
    return not row.keys().isdisjoint((name, *ALIASES[name]))


def plan_of(row: Row, path: Path, *, builder: RolloutBuilder) -> Plan | None:
    """Return which column is what, from a row with an example of each; None for no rollouts."""
    found = resolve(row, builder)
    ended = _ended(row, found, builder)
    columns = {
        name: column
        for name, column in found.items()
        if name in TEXTS or _usable(name, column, row[column], path, builder)
    }
    if not any(map(is_telling, columns)):
        return None
    converts = (finish.truncated_by,) if ended else ()
    columns |= ended
    constants = {}
    if "step" not in columns and _NAMED_STEP.fullmatch(log_files.plain_stem(path)):
        constants["step"] = step_of_name(path)
        builder.infer("step: from the file name")
    if "reward" in columns:
        return Plan(columns, constants, converts=converts)
    if any(name.startswith(COMPONENT) for name in columns):
        builder.infer("reward: the sum of the components, unweighted (the log has no total)")
        return Plan(columns, constants, converts=(*converts, _sum))
    if "reward" not in found:
        message = _NO_REWARD.format(", ".join(sorted(row)[:20]))
        builder.problems.once((path, "reward"), str(path), 0, message)
    return Plan(columns, constants, converts=converts)


def _ended(row: Row, found: dict[str, str], builder: RolloutBuilder) -> dict[str, str]:
    """Return the column that says in words why completions ended; where it is mapped it leaves
    `found`, and a column that says in numbers which are truncated goes first.
    """
    if "truncated" not in found:
        column = finish.reason_column(row)
        if column:
            builder.infer(f"truncated: where {column} names the length cap")
        return {finish.NAME: column} if column else {}
    mapped = builder.options.map.get("truncated")
    if mapped is None or not isinstance(row.get(mapped), str) or numeric(row[mapped]):
        return {}
    return {finish.NAME: found.pop("truncated")}


def _usable(name: str, column: str, value: Any, path: Path, builder: RolloutBuilder) -> bool:
    """Return whether an example value suits a numeric column; say so where not."""
    if numeric(value) or isinstance(value, str):
        return True
    text = _LISTS if isinstance(value, list) else _NOT_NUMERIC
    builder.problems.once((path, column), str(path), 0, text.format(column, name))
    return False


def _sum(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with a reward: the sum of the known components, unknown without any."""
    parts = [
        np.array([number_or_nan(one) for one in column])
        for name, column in columns.items()
        if name.startswith(COMPONENT)
    ]
    table = np.stack(parts)
    known = ~np.isnan(table).all(axis=0)
    return columns | {"reward": np.where(known, np.nansum(table, axis=0), np.nan)}


def _is_array(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["

"""verl's rollout dumps: ``<step>.jsonl`` of ``trainer.rollout_data_dir``.

Two layouts. The older one (up to 0.8, and with ``use_v1: false``) has input, output, gts, score,
step, every key of the reward function's extra info, and no group id: rows of one step and input
are a group. The V1 layout has ``uid = "{uid}_{session}_{output}"`` instead of the extra keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import ALIASES, COMPONENT
from buttress.logs.formats.jsonl import JsonlRollouts, Plan, Row
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan, numeric, step_of_name

_OURS = {"prompt": "input", "completion": "output", "reward": "score", "step": "step"}
_OTHER = ("correct", "length", "truncated", "advantage")
_REQUIRED = {"input", "output", "score"}
_UID_TAIL = re.compile(r"_(\d+)_\d+$")
_PENALTY = "reward/overlong_reward"
# A row with the penalty and nothing else that a reward function returned; see `_total`.
_PLAIN = {*_OURS.values(), "gts", "request_id", "uid", "acc", "overlong", "overlong_reward"}
# A numeric extra key is a reward component when a word of its name says so.
_COMPONENT_WORDS = {
    "reward", "rewards", "score", "scores", "format", "accuracy", "correctness", "penalty", "bonus"
}  # fmt: skip

Columns = dict[str, Any]


class VerlRollouts:
    """Reads verl's dumps; both layouts may stand in one directory."""

    name: ClassVar[str] = "verl"
    kind: ClassVar[Kind] = "rollouts"
    file_by_file: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have verl's columns."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the dumps of a run."""
        engine = JsonlRollouts(builder, _plan)
        for path in files:
            engine.read(path)


def _plan(row: Row, path: Path, *, builder: RolloutBuilder) -> Plan | None:
    columns = {name: column for name, column in _OURS.items() if column in row}
    columns |= _extra(row, builder)
    for name, column in builder.options.map.items():
        if column in row:
            columns[name] = column
            builder.mapped.add(name)
    builder.columns.update(dict.fromkeys(row))
    if "reward" not in columns and "completion" not in columns:
        return None
    constants = {} if "step" in columns else {"step": step_of_name(path)}
    converts: list[Callable[[Columns], Columns]] = []
    if "group" not in columns and "uid" in row:
        columns["group"] = "uid"
        converts.append(_split_uid)
    if _PENALTY in columns and columns.get("reward") == "score" and row.keys() - _PLAIN:
        converts.append(_total)
        builder.infer("reward: score + overlong_reward, since this dump's score leaves it out")
    return Plan(columns, constants, converts=tuple(converts))


def _extra(row: Row, builder: RolloutBuilder) -> dict[str, str]:
    """Return the columns that the reward function's extra info adds."""
    found: dict[str, str] = {}
    for name in _OTHER:
        for column in (name, *ALIASES[name]):
            if name not in found and column in row and numeric(row[column]):
                found[name] = column
                if column != name:
                    builder.infer(f"{name}: read from the column {column}")
    taken = {*found.values(), *_OURS.values()}
    for column, value in row.items():
        if column not in taken and numeric(value) and is_component(column):
            found[COMPONENT + column.removeprefix(COMPONENT)] = column
    return found


def is_component(column: str) -> bool:
    """Return whether a numeric extra key is a reward component, told by a word in its name.

    >>> [is_component(name) for name in ("overlong_reward", "format", "num_turns")]
    [True, True, False]
    """
    words = re.split(r"[^a-z]+", column.lower())
    return not _COMPONENT_WORDS.isdisjoint(words)


def _split_uid(columns: Columns) -> Columns:
    """Take session and output off the uid: what is left is the group, the session the sample."""
    uids = columns["group"]
    if not isinstance(uids, list):
        return columns
    try:
        cut = len(uids[0]) - len(_tail(uids[0])) if uids else 0
        # uuids are of one length, and sessions few
        tails = [uid[cut:] for uid in uids]
        session = {tail: _session(tail) for tail in set(tails)}
        heads = [uid[:cut] for uid in uids]
    except (TypeError, ValueError):
        uids = ["" if uid is None else str(uid) for uid in uids]
        tails = [_tail(uid) for uid in uids]
        session = {tail: _session(tail) if tail else -1 for tail in set(tails)}
        heads = [uid.removesuffix(tail) or None for uid, tail in zip(uids, tails, strict=True)]
    samples = np.fromiter(map(session.__getitem__, tails), np.int64, len(tails))
    return columns | {"group": heads, "sample": samples}


def _tail(uid: str) -> str:
    """Return the ``_{session}_{output}`` at the end of a uid, empty where it has none."""
    found = _UID_TAIL.search(uid)
    return found[0] if found else ""


def _session(tail: str) -> int:
    """Return the first number of ``_{session}_{output}``; raises `ValueError` for other text."""
    start, session, output = tail.split("_")
    if start or not output.isdecimal():
        raise ValueError(tail)
    return int(session)


def _total(columns: Columns) -> Columns:
    """Add the overlong penalty to the score.

    verl's DAPO reward manager trains on score + overlong_reward, but its dump overwrites score by
    the entry of that name where the reward function returns a dict (0.9.1, `_write_generations`).
    """
    score, penalty = columns["reward"], columns[_PENALTY]
    if isinstance(score, list) or isinstance(penalty, list):
        pairs = zip(score, map(number_or_nan, penalty), strict=True)
        total = [_plus(one, 0.0 if math.isnan(more) else more) for one, more in pairs]
    else:
        total = score + np.nan_to_num(penalty)
    return columns | {"reward": total}


def _plus(score: Any, penalty: float) -> Any:
    number = number_or_nan(score)
    return score if math.isnan(number) else number + penalty

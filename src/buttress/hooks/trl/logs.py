"""TRL's own logs of a generation: its metrics, its advantages, its completions table."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from buttress.hooks.trl.rollouts import Generation, mode_of

COLUMNS = ("buttress_group", "buttress_length", "buttress_truncated", "buttress_reward")


def log_metrics(trainer: Any, numbers: Mapping[str, float]) -> None:
    """Add numbers to the metrics that TRL averages over a logging step and sends to its trackers.

    TRL leaves NaN out of the average, and reports null where nothing else was there.
    """
    for name, value in numbers.items():
        trainer._metrics[mode_of(trainer)][f"buttress/{name}"].append(value)


def rewrite_advantages(trainer: Any, advantages: list[float]) -> None:
    """Put the advantages of this generation in the place of those that TRL just logged."""
    _rewrite_tail(trainer._logs["advantages"], advantages)


def _rewrite_tail(entries: deque[Any], values: list[Any]) -> None:
    for _ in range(min(len(values), len(entries))):
        entries.pop()
    entries.extend(values)


def fill_table(trainer: Any, generation: Generation | None, n_rows: int) -> None:
    """Add our columns of the last `n_rows` rollouts to the completions table, null if unknown.

    TRL makes the table from deques that must have one length, or its ``log()`` raises. So every
    generation adds its rows to every column, and rows from before the first one are null.
    """
    if not trainer.log_completions:
        return
    values = _columns(generation) if generation else {name: [None] * n_rows for name in COLUMNS}
    for name in COLUMNS:
        entries = trainer._logs["extra"][name]
        entries.extend(values[name])
        entries.extendleft([None] * (len(trainer._logs["prompt"]) - len(entries)))


def _columns(generation: Generation) -> dict[str, list[Any]]:
    groups = generation.groups
    rewards = groups.rewards.tolist()
    values = (
        groups.group_id[groups.group_of].tolist(),
        groups.columns["length"].tolist(),
        groups.columns["truncated"].tolist(),
        [None if reward != reward else reward for reward in rewards],
    )
    return dict(zip(COLUMNS, values, strict=True))

"""Monitors on two ranks; part of `two_ranks`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.hooks import tiny

RANK = int(os.environ.get("RANK", "0"))
# 3 groups of 4 over 2 ranks of 6 rows: the middle group lies on both
ROWS = tiny.table(29, 4, 12, missing=0.1)
DEAD = [[0.0] * 12]


def acting(folder: Path) -> dict[str, Any]:
    """A policy switches the remedy on, another one stops the run; both ranks must follow."""
    import buttress as bt
    from buttress.hooks import Switch
    from buttress.hooks.trl import attach

    policies = [
        bt.Policy("acr > 0.9", Switch("avspo", {"threshold": "always"}), for_steps=2),
        bt.Policy("acr > 0.9", "stop", for_steps=4, name="enough"),
    ]
    monitor = bt.Monitor(policies=policies, warmup=0)
    settings = {"per_device_train_batch_size": 6, "num_generations": 4, "max_steps": 9}
    trainer = attach(tiny.trainer(folder, tiny.Script(DEAD), **settings), "grpo", monitor)
    outputs = tiny.watch(trainer)
    trainer.train()
    return {
        "steps": trainer.state.global_step,
        "moved": [bool(output["advantages"].any()) for output in outputs],
        "saved": sorted(one.name for one in folder.glob("checkpoint-*")),
        "counted": monitor.last_step,
        "logged": tiny.logged(trainer, "buttress/acr_run"),
    }


def wrapped(folder: Path) -> dict[str, Any]:
    """The same rewards through a wrapped reward function, and through `attach`."""
    import buttress as bt
    from buttress.hooks.reward_function import monitored
    from buttress.hooks.trl import attach

    found = {}
    for size in (4, None):
        outside, inside = bt.Monitor(), bt.Monitor()
        reward = monitored(tiny.Script(ROWS), outside, group_size=size)
        settings = {"per_device_train_batch_size": 6, "num_generations": 4, "max_steps": 4}
        trainer = tiny.trainer(folder / str(size), reward, **settings)
        attach(trainer, "grpo", inside).train()
        found[str(size)] = [_counts(outside), _counts(inside)]
    return found


def apart(folder: Path) -> dict[str, Any]:
    """Every rank counts groups of its own; then they are put together."""
    import buttress as bt
    from buttress.hooks.ranks import over_ranks

    monitor, alone = bt.Monitor(), bt.Monitor()
    for step, row in enumerate(ROWS, 1):
        groups = [row[:4], row[4:8], row[8:]]
        alone.update(bt.Groups.from_nested(groups, prompt_id=list("abc")), step=step)
        mine = groups[RANK::2]
        monitor.update(bt.Groups.from_nested(mine, prompt_id=list("abc")[RANK::2]), step=step)
    return {"together": _counts(over_ranks(monitor)), "alone": _counts(alone)}


def _counts(monitor: Any) -> dict[str, float | None]:
    names = (
        "acr_run",
        "acr_window",
        "effective_batch",
        "reward_mean",
        "prompts",
        "unscorable_share",
    )
    found = monitor.metrics()
    values = {name: found[f"buttress/{name}"] for name in names}
    return {name: None if value != value else value for name, value in values.items()}


SCENARIOS = (acting, wrapped, apart)

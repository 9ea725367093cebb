"""Run by torchrun on two ranks: train, and write what each saw to ``<folder>/rank<n>.json``."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.hooks import tiny, two_ranks_monitor, two_ranks_tokens

# 3 groups of 4 over 2 ranks of 6 rows: the middle group lies on both
ROWS = tiny.table(23, 4, 12, missing=0.1)
SETTINGS: dict[str, Any] = {"max_steps": 4, "num_generations": 4}
OPTIONS: dict[str, Any] = {"threshold_rate": 0.5, "threshold_init": 0.2}
RANK = int(os.environ.get("RANK", "0"))


class Notes:
    """A monitor that keeps the steps and the prompts."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def update(self, groups: Any, *, step: int) -> None:
        self.seen.append([step, groups.prompt_id.tolist(), groups.columns["length"].tolist()])


def build(folder: Path, rows_per_rank: int, **settings: Any) -> tuple[Any, list[Any], Notes]:
    """Return a trainer with `avspo`, its outputs and its monitor."""
    from buttress.hooks.trl import attach

    trainer = tiny.trainer(
        folder,
        tiny.Script(ROWS),
        kind=tiny.recorder(),
        per_device_train_batch_size=rows_per_rank,
        **(SETTINGS | settings),
    )
    notes = Notes()
    return trainer, tiny.watch(attach(trainer, "avspo", notes, **OPTIONS)), notes


def result(trainer: Any, outputs: list[Any], notes: Notes) -> dict[str, Any]:
    """Return what a run left behind, as JSON can hold it."""
    return {
        "advantages": [output["advantages"].tolist() for output in outputs],
        "own": [own.tolist() for own in trainer.own],
        "logged": list(trainer._logs["advantages"]),
        "groups": list(trainer._logs["extra"]["buttress_group"]),
        "state": trainer._buttress.estimator.state_dict(),
        "acr": tiny.logged(trainer, "buttress/acr"),
        "fallback": tiny.logged(trainer, "buttress/fallback"),
        "notes": notes.seen,
    }


def straddling(folder: Path) -> dict[str, Any]:
    run = build(folder, 6, log_completions=True, save_strategy="steps", save_steps=2)
    run[0].train()
    return result(*run)


def resumed(folder: Path) -> dict[str, Any]:
    """The second rank has a disk of its own, without the state."""
    from buttress.hooks.trl import attachment as trl_attachment

    name = trl_attachment.STATE_FILE
    trl_attachment.STATE_FILE = name if RANK == 0 else "elsewhere.json"
    run = build(folder, 6, log_completions=True)
    run[0].train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    trl_attachment.STATE_FILE = name
    return result(*run)


def one_group(folder: Path) -> dict[str, Any]:
    run = build(folder, 2)
    run[0].train()
    return result(*run)


def one_rank_faulty(folder: Path) -> dict[str, Any]:
    """The second rank fails to describe its rollouts in the second step."""
    from buttress.hooks.trl import rollouts as trl_rollouts

    run = build(folder, 6)
    describe, calls = trl_rollouts.local_facts, []

    def describe_or_fail(*args: Any) -> Any:
        calls.append(1)
        if RANK == 1 and len(calls) == 2:
            raise RuntimeError("only here")
        return describe(*args)

    trl_rollouts.local_facts = describe_or_fail
    run[0].train()
    trl_rollouts.local_facts = describe
    return result(*run)


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    found = {}
    more = (*two_ranks_tokens.SCENARIOS, *two_ranks_monitor.SCENARIOS)
    for scenario in (straddling, resumed, one_group, one_rank_faulty, *more):
        place = folder / "straddling" if scenario is resumed else folder / scenario.__name__
        found[scenario.__name__] = scenario(place)
    (folder / f"rank{RANK}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

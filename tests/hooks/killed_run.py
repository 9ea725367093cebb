"""Train with a monitor, resuming from the last checkpoint; die at a given step if told to."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import buttress as bt
from tests.hooks import tiny

STEPS = 8


def train(folder: Path, monitor: bt.Monitor, die_at: int | None = None) -> None:
    """Train to the end, or kill this process in the middle of a generation."""
    from transformers.trainer_utils import get_last_checkpoint

    from buttress.hooks.trl import attach

    script = tiny.Script(tiny.table(19, STEPS, 8))

    def rewards(trainer_state: Any, **kwargs: Any) -> Any:
        if trainer_state.global_step + 1 == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return script(trainer_state=trainer_state, **kwargs)

    rewards.__name__ = "script"
    settings: dict[str, Any] = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 2}
    trainer = attach(tiny.trainer(folder, rewards, **settings), "avspo", monitor)
    last = get_last_checkpoint(str(folder)) if folder.exists() else None
    trainer.train(resume_from_checkpoint=last)


def main(folder: Path, die_at: str) -> None:
    warnings.simplefilter("ignore")
    monitor = bt.Monitor()
    train(folder, monitor, None if die_at == "None" else int(die_at))
    (folder / "state.json").write_text(json.dumps(monitor.state_dict()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

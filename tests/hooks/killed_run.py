"""Train with a monitor, resuming from the last checkpoint, and die.

python -m tests.hooks.killed_run FOLDER STEP            in the middle of a generation, or never
python -m tests.hooks.killed_run FOLDER random TRIALS   at random moments, until it is done
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import buttress as bt
from tests.hooks import tiny

STEPS = 8


def train(folder: Path, monitor: bt.Monitor, die_at: int | None = None) -> None:
    """Train to the end, or kill this process in the middle of a generation."""
    from buttress.hooks.trl import attach

    script = tiny.Script(tiny.table(19, STEPS, 8))

    def rewards(trainer_state: Any, **kwargs: Any) -> Any:
        if trainer_state.global_step + 1 == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return script(trainer_state=trainer_state, **kwargs)

    rewards.__name__ = "script"
    settings: dict[str, Any] = {"max_steps": STEPS, "save_strategy": "steps", "save_steps": 2}
    trainer = attach(tiny.trainer(folder, rewards, **settings), "avspo", monitor)
    trainer.train(resume_from_checkpoint=last_complete(folder))


def last_complete(folder: Path) -> str | None:
    """Return the last checkpoint whose trainer_state.json, which comes last, is whole."""
    for step in range(STEPS, 0, -1):
        checkpoint = folder / f"checkpoint-{step}"
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())
        except (OSError, json.JSONDecodeError):
            continue
        return str(checkpoint)
    return None


def finish(folder: Path, die_at: int | None = None) -> None:
    """Train to the end and leave the state of the monitor."""
    monitor = bt.Monitor()
    train(folder, monitor, die_at)
    half = folder / "state.half"
    half.write_text(json.dumps(monitor.state_dict()))
    half.replace(folder / "state.json")


def killed_at_random(folder: Path, trials: int) -> None:
    """Leave ``straight`` and a folder per trial with the same run, killed again and again.

    Each attempt is a fork of this process, which has loaded the libraries and computed nothing.
    """
    from trl import GRPOTrainer  # noqa: F401

    import buttress.hooks.trl  # noqa: F401

    attempt(folder / "straight", None)
    started = time.monotonic()
    attempt(folder / "again", None)
    whole = time.monotonic() - started
    draw, kills = random.Random(11), 0
    for trial in range(trials):
        longer = 1.0
        while not (folder / str(trial) / "state.json").exists():
            kills += attempt(folder / str(trial), draw.uniform(0.2, 0.9) * whole * longer)
            longer *= 1.1  # on a machine that has become slower
    (folder / "kills").write_text(str(kills))


def attempt(folder: Path, seconds: float | None) -> bool:
    """Go on with a run in a process of its own; return whether it was killed before its end."""
    child = os.fork()
    if child == 0:
        try:
            finish(folder)
            os._exit(0)
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"{folder}: the training failed")
    return os.WIFSIGNALED(status)


def main(folder: Path, how: str, trials: str = "0") -> None:
    warnings.simplefilter("ignore")
    if how == "random":
        killed_at_random(folder, int(trials))
    else:
        finish(folder, None if how == "None" else int(how))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

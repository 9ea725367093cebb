"""How a training goes, on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback

LINES = 50  # of a run, where there is no terminal
_SHOWN = {"reward": "reward", "buttress/acr": "ACR", "loss": "loss", "entropy": "entropy"}


class Show(TrainerCallback):
    """Tells reward, collapse rate, loss and time of each step; on the first rank."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task: Any = None
        self._last = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and self._console.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            text = TextColumn("{task.description}")
            self._bar = Progress(text, *columns, console=self._console)
            self._task = self._bar.add_task("training", total=state.max_steps)
            self._bar.start()
        self._last = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not state.is_world_process_zero or "reward" not in (logs or {}):
            return
        told = "  ".join(
            f"{short} {logs[name]:.3g}" for name, short in _SHOWN.items() if _known(logs.get(name))
        )
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step, description=told)
            return
        every = max(1, state.max_steps // LINES)
        if state.global_step % every == 0 or state.global_step in (1, state.max_steps):
            now = time.monotonic()
            line = f"step {state.global_step}/{state.max_steps}  {told}  {now - self._last:.1f} s"
            self._console.print(line, markup=False, highlight=False)
            self._last = now

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away, also where the training ends early."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and value == value

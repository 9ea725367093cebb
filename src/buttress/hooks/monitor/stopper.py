"""The end of a run, as every trainer built on transformers understands it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def stopper(asked: Callable[[], bool]) -> Any:
    """Return a callback that saves and ends the run after a step, once `asked` says so.

    It must say so on every rank.
    """
    from transformers import TrainerCallback

    class Stopper(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            if asked():
                control.should_save = control.should_training_stop = True
            return control

    return Stopper()

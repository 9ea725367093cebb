"""How a training ends early: what happened, what is kept, how to go on."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from buttress.errors import ButtressError
from buttress.train import arguments, folder
from buttress.train.ranks import RankError

_LOST = re.compile("connection (closed|reset)|broken pipe|timed out|aborted|nccl", re.IGNORECASE)


@contextmanager
def explained(out: Path, trainer: Any) -> Generator[None]:
    """Turn what can end a training into an error that says how to go on."""
    try:
        yield
    except ButtressError:
        _keep_state(trainer)
        raise
    except KeyboardInterrupt:
        _keep_state(trainer)
        raise
    except Exception as fault:
        _keep_state(trainer)
        why = reason_of(fault)
        if why is None:
            raise
        raise RankError(f"{why}; {folder.last_checkpoint(out)}") from fault


def reason_of(fault: Exception) -> str | None:
    """Return what happened in words, None for what is no fault of the user's machine."""
    text = str(fault)
    if getattr(fault, "errno", None) == errno.ENOSPC or "No space left" in text:
        return f"the disk is full: {text[:200]}. Make room"
    if type(fault).__name__ == "OutOfMemoryError" or "not enough memory" in text:
        return (
            f"out of memory: {text[:120]}. Lower [trainer] per_device_train_batch_size (the run "
            "stays the same), or max_completion_length"
        )
    if arguments.ranks() > 1 and isinstance(fault, RuntimeError) and _LOST.search(text):
        return f"another rank is gone: {text[:200]}. Its own message says why"
    if isinstance(fault, OSError):
        where = f"{fault.filename}: " if fault.filename else ""
        return f"{where}{fault.strerror or fault}"
    return None


def _keep_state(trainer: Any) -> None:
    """Keep the metrics of a run that ends early, for its diagnosis."""
    with suppress(Exception):
        trainer.save_state()

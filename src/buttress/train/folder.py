"""The directory of a run: whose it is, how far it came, and where it goes on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.errors import UsageError
from buttress.train.changes import differences

RECORD = ".buttress-train.json"  # hidden, so that no reader of logs takes it for one
MODEL = "model"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Start:
    """Where a run begins.

    Attributes
    ----------
    checkpoint
        To go on from, or None for a start from the first step.
    step
        Optimizer steps that it has behind it.
    log_size
        Bytes of the rollout log that belong to these steps.
    notes
        What the user should know.
    done
        Whether the run is finished.
    """

    checkpoint: Path | None = None
    step: int = 0
    log_size: int = 0
    notes: tuple[str, ...] = ()
    done: bool = False


def examine(
    out: Path, record: Mapping[str, Any], *, steps: int, resume: bool, accept: bool
) -> Start:
    """Return where to start in a directory; nothing is written.

    Parameters
    ----------
    out
        The directory; it may be missing.
    record
        What decides the run, as `Training.record` gives it, with the number of ranks and the
        fingerprint of the data.
    steps
        Optimizer steps of the whole run.
    resume
        Go on from the last complete checkpoint; a run that never wrote one starts anew.
    accept
        Go on although settings differ.

    Raises
    ------
    UsageError
        Where the directory holds a run and `resume` is not set, something else, or a run with
        other settings.
    """
    found = _record(out)
    if found is None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            message = "is not empty and holds no training of ours; choose another out"
            raise UsageError(f"{out} {message}")
        note = (f"{out} holds no training yet: the run starts anew",) if resume else ()
        return Start(notes=note)
    if not resume:
        last = _complete(out)
        came = f"at step {last[0]}" if last else "without a checkpoint"
        raise UsageError(f"{out} holds a training ({came}): go on with --resume, or choose another")
    notes = _changes(out, found, record, accept)
    return _resumed(out, steps, notes)


def claim(out: Path, record: Mapping[str, Any]) -> None:
    """Make the directory this run's own."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / RECORD, record)
    except OSError as fault:
        raise UsageError(f"cannot write to {out}: {fault.strerror or fault}") from None


def mark(checkpoint: Path, record: Mapping[str, Any], log_size: int) -> None:
    """Declare a checkpoint complete: written last, so that a torn one is never resumed from."""
    write_json(checkpoint / RECORD, {"record": record, "log_size": log_size})


def write_json(path: Path, value: Any) -> None:
    """Write a file that is whole or not there at all."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(value, indent=1), encoding="utf-8")
    os.replace(draft, path)  # noqa: PTH105 - the same thing, and named for what it does


def last_checkpoint(out: Path) -> str:
    """Return where a failed run can go on, in words."""
    last = _complete(out)
    if last is None:
        return "no checkpoint was written yet; --resume starts it anew"
    return f"the last checkpoint is {last[1]}; go on from it with --resume"


def _record(out: Path) -> dict[str, Any] | None:
    try:
        return json.loads((out / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except ValueError:
        raise UsageError(f"{out / RECORD} is damaged; choose another directory") from None


def _changes(out: Path, old: Mapping[str, Any], new: Mapping[str, Any], accept: bool) -> list[str]:
    changed = differences(old, new)
    if changed and not accept:
        raise UsageError(
            f"{out} holds a training with other settings: {'; '.join(changed)}. Take the old ones, "
            "another directory, or --accept-changes to go on with the new ones"
        )
    return [f"goes on with other settings: {'; '.join(changed)}"] if changed else []


def _resumed(out: Path, steps: int, notes: list[str]) -> Start:
    last = _complete(out)
    torn = [path.name for step, path in _checkpoints(out) if last is None or step > last[0]]
    if torn:
        notes.append(f"{', '.join(torn)}: not completely written, left alone")
    if last is None:
        notes.append(f"{out} has no complete checkpoint: the run starts anew")
        return Start(notes=tuple(notes))
    step, path, size = last
    return Start(path, step, size, tuple(notes), done=step >= steps)


def _checkpoints(out: Path) -> list[tuple[int, Path]]:
    paths = out.iterdir() if out.is_dir() else ()
    named = ((_CHECKPOINT.fullmatch(path.name), path) for path in paths)
    return sorted((int(match[1]), path) for match, path in named if match)


def _complete(out: Path) -> tuple[int, Path, int] | None:
    """Return step, path and log size of the last checkpoint that was written to its end."""
    for step, path in reversed(_checkpoints(out)):
        try:
            mark = json.loads((path / RECORD).read_text(encoding="utf-8"))
            return step, path, int(mark["log_size"])
        except (OSError, ValueError, KeyError):
            continue
    return None

"""Every rollout of a training, once, as it was trained on: ``OUT/rollouts.jsonl``.

TRL's own completions files hold what was generated since the last log line, so that they lose and
repeat generations where these do not fall together; this log is written by the generation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from buttress.groups import Groups
from buttress.logs.prose import text_of

NAME = "rollouts.jsonl"
ASIDE = "rollouts-after-step-{}.bak"


class RolloutLog:
    """Appends generations to a file; it is what a trainer calls its monitor, or a part of it.

    A fault of the disk is kept in `fault` for the trainer to stop at: what is written stays whole.

    Parameters
    ----------
    path
        The file.
    correct
        Name of the reward that says whether an answer is correct, if one does.
    """

    def __init__(self, path: Path, correct: str | None = None) -> None:
        self.path = path
        self.trainer: Any = None
        self.fault: OSError | None = None
        self.last: Groups | None = None
        self._correct = correct

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def update(self, groups: Groups, *, step: int, **_: Any) -> None:
        """Write the rollouts of one generation."""
        self.last = groups
        texts = _tails(self.trainer, groups.n_samples)
        lines = [msgspec.json.encode(row) + b"\n" for row in self._rows(groups, step, texts)]
        try:
            _append(self.path, b"".join(lines))
        except OSError as fault:
            self.fault = fault

    def _rows(
        self, groups: Groups, step: int, texts: list[tuple[Any, Any]]
    ) -> Iterator[dict[str, Any]]:
        starts = np.cumsum(groups.sizes) - groups.sizes
        sample = np.arange(groups.n_samples) - np.repeat(starts, groups.sizes)
        columns = {
            name: groups.columns[name].tolist()
            for name in groups.columns
            if name in ("length", "truncated", "advantage") or name.startswith("reward/")
        }
        if self._correct is not None:
            columns["correct"] = columns[f"reward/{self._correct}"]
        rewards, group_of = groups.rewards.tolist(), groups.group_of.tolist()
        names, prompts = groups.group_id.tolist(), groups.prompt_id.tolist()
        for at, (prompt, completion) in enumerate(texts):
            group = group_of[at]
            yield {
                "step": step,
                "group": names[group],
                "sample": int(sample[at]),
                "prompt_id": prompts[group],
                "prompt": text_of(prompt),
                "completion": text_of(completion),
                "reward": rewards[at],
                **{name: values[at] for name, values in columns.items()},
            }


def cut_back(path: Path, size: int, step: int) -> Path | None:
    """Leave the first `size` bytes of a log; what follows goes into a file beside it.

    A run that is resumed generates it again. Returns that file, None where nothing follows.
    """
    if not path.exists() or path.stat().st_size <= size:
        return None
    aside = path.with_name(ASIDE.format(step))
    with path.open("rb+") as file, aside.open("wb") as rest:
        file.seek(size)
        while chunk := file.read(1 << 20):
            rest.write(chunk)
        rest.flush()
        os.fsync(rest.fileno())
        file.truncate(size)
    return aside


def _append(path: Path, data: bytes) -> None:
    """Write all of the data or nothing of it."""
    with path.open("ab", buffering=0) as file:
        start = file.seek(0, os.SEEK_END)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            with suppress(OSError):
                file.truncate(start)
            raise


def _tails(trainer: Any, count: int) -> list[tuple[Any, Any]]:
    """Return prompt and completion of the last `count` rollouts that the trainer took note of."""
    logs = trainer._logs
    sides = [list(islice(reversed(logs[name]), count))[::-1] for name in ("prompt", "completion")]
    return list(zip(*sides, strict=True))

"""Texts of rollouts, read back from disk only when they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from buttress.groups import Groups, Text
from buttress.logs.reader import Fetch


@dataclass(frozen=True)
class TextsOnDisk:
    """Fetches prompt and completion of samples; empty where the log has or keeps no text."""

    groups: Groups
    paths: tuple[str, ...]
    fetchers: tuple[Fetch | None, ...]

    def __call__(self, samples: Sequence[int]) -> list[Text]:
        """Return one text per sample, in the order asked for."""
        wanted = np.asarray(samples, dtype=np.int64)
        files = self.groups.columns["file"][wanted]
        rows = self.groups.columns["row"][wanted]
        found = [Text("", "")] * len(wanted)
        for file in np.unique(files):
            fetch = self.fetchers[file]
            if fetch is None:
                continue
            asked = np.unique(rows[files == file])
            texts = dict(
                zip(asked.tolist(), fetch(Path(self.paths[file]), asked.tolist()), strict=True)
            )
            for place in np.flatnonzero(files == file):
                found[place] = texts[int(rows[place])]
        return found

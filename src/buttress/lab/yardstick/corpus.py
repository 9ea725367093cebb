"""The corpus: which runs it has, and one of them made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from buttress.lab.yardstick.draft import PHASES, Draft
from buttress.lab.yardstick.kinds import KINDS, SHOWN, Format, Kind

Half = Literal["development", "held out"]


@dataclass(frozen=True)
class Recipe:
    """How one run of the corpus is made; `number` is its seed.

    Attributes
    ----------
    half
        Rules may be mended by what the development half shows; the other half is only counted.
    """

    number: int
    kind: Kind
    recording: str
    format: Format

    @property
    def half(self) -> Half:
        turn = self.number % len(KINDS) + self.number // len(KINDS)
        return "held out" if turn % 2 else "development"

    @property
    def accepted(self) -> frozenset[str]:
        """The rules that may speak besides: by what was done, and by what the recording shows."""
        return (self.kind.accepted | set(SHOWN.get(self.recording, ()))) - set(self.kind.labels)

    @property
    def name(self) -> str:
        return f"{self.number:04d}-{self.kind.name}-{self.recording}-{self.format}"


def recipes(n: int) -> Iterator[Recipe]:
    """Yield the first n runs of the corpus: the kinds in turn, each time from another seed."""
    for number in range(n):
        kind = KINDS[number % len(KINDS)]
        turn = number // len(KINDS)
        at = turn + number  # every kind goes through its recordings and formats
        source = kind.recordings[at % len(kind.recordings)]
        yield Recipe(number, kind, source, kind.formats[(turn + number // 3) % len(kind.formats)])


def make(recipe: Recipe) -> Draft:
    """Return the run of a recipe: the phases of a training step, with its causes at work."""
    draft = Draft.of(recipe.recording)
    rng = np.random.default_rng([5, recipe.number])
    draft.vary(rng)
    for phase in PHASES:
        draft.enter(phase)
        for when, change in recipe.kind.changes:
            if when == phase:
                change(draft, rng)
    return draft

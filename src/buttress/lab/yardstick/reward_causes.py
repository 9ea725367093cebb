"""Causes in what is made of the verdicts: scales, formats, shaping, float noise."""

from __future__ import annotations

import zlib

import numpy as np

from buttress.lab.yardstick.draft import Draft, Floats
from buttress.lab.yardstick.trainer_causes import float32_mean

Rng = np.random.Generator


def shrink(draft: Draft, rng: Rng) -> None:
    """Multiply the reward by so little that every eps swallows it: a wrong unit."""
    draft.parts["accuracy"] *= 10 ** rng.uniform(-8.5, -7)
    draft.shows -= {"correct"}


def rescale(draft: Draft, rng: Rng) -> None:
    """Use another scale for the same verdicts, which a group baseline does not mind."""
    low, high = [(-1, 1), (0, 10), (0, 100), (-5, 5), (0, 0.1), (0, 2)][int(rng.integers(6))]
    draft.parts["accuracy"] = low + (high - low) * draft.correct
    draft.eps = 1e-6


def add_constant_format(draft: Draft, rng: Rng) -> None:
    """Pay a format that every completion has."""
    draft.parts["format"] = np.full(draft.correct.shape, round(rng.uniform(0.1, 1.0), 2))


def add_learnt_format(draft: Draft, rng: Rng) -> None:
    """Pay a format that the model picks up within the first steps and keeps ever after."""
    first = rng.uniform(1.0, 3.0)
    rate = 1 - np.exp(-(draft.steps - 0.3) / first)
    has = rng.random(draft.correct.shape) < np.where(rate > 0.98, 1.0, rate)[:, None]
    draft.parts["format"] = has.astype(np.float64) * round(rng.uniform(0.1, 1.0), 2)


def add_live_format(draft: Draft, rng: Rng) -> None:
    """Pay a format that depends on the text and that some completions have."""
    draft.parts["format"] = _having(draft, rng, 0.3, 0.7) * rng.uniform(0.1, 0.5)


def shape(draft: Draft, rng: Rng) -> None:
    """Add what a model of style thinks of a text, whether it is right or wrong."""
    draft.parts["style"] = _liking(draft, rng) * round(rng.uniform(0.2, 1.0), 2)
    draft.shows |= {"correct"}


def shape_lightly(draft: Draft, rng: Rng) -> None:
    """Add a small bonus for some texts, where the task itself is alive."""
    draft.parts["style"] = _having(draft, rng, 0.5, 0.5) * rng.uniform(0.02, 0.2)


def jitter(draft: Draft, rng: Rng) -> None:
    """Add the noise of a model that grades: far below what it can tell apart."""
    noise = 10 ** rng.uniform(-4.5, -2.9) * rng.standard_normal(draft.correct.shape)
    draft.parts["accuracy"] = draft.parts["accuracy"] + noise
    draft.method, draft.eps = "grpo", 1e-6


def partial_credit(draft: Draft, rng: Rng) -> None:
    """Pay the share of the answer that is right, place by place."""
    rows = zip(draft.texts, draft.answers, strict=True)
    share = [[_agreement(text, answer) for text in row] for row, answer in rows]
    draft.parts = {"accuracy": np.array(share)}
    draft.shows -= {"correct"}


def round_in_float32(draft: Draft, rng: Rng) -> None:
    """Use levels that float32 cannot hold, as a float32 trainer would.

    Of some levels the mean is off, of other levels it is exact: that depends on the group's size.
    """
    n, base = draft.correct.shape[1], rng.choice([0.0, 1.0])
    usable = [
        level
        for level in (0.7, 1.4, 2.1, 4.2, 2.7, 3.3)
        if float32_mean(np.full((1, n), level * (base + 1)))[0, 0] != np.float32(level * (base + 1))
    ]
    draft.parts["accuracy"] = rng.choice(usable) * (base + draft.correct)


def twin(draft: Draft, rng: Rng) -> None:
    """Return a reward in float32 whose last bits depend on the batch that it was computed in."""
    bits = rng.integers(0, 3, draft.correct.shape) * 2.0**-24
    draft.parts["accuracy"] = draft.parts["accuracy"] * (1 - bits)


def _having(draft: Draft, rng: Rng, low: float, high: float) -> Floats:
    """Return 1 for texts with a property that a share from this range of all texts has."""
    return (_liking(draft, rng) < rng.uniform(low, high)).astype(np.float64)


def _liking(draft: Draft, rng: Rng) -> Floats:
    """Return a score in [0, 1] for each text, the same for equal texts."""
    salt = str(int(rng.integers(1 << 30)))
    codes = [[zlib.crc32((salt + text).encode()) for text in row] for row in draft.texts]
    return np.array(codes) / 2.0**32


def _agreement(text: str, answer: str) -> float:
    same = sum(one == other for one, other in zip(text, answer, strict=False))
    return same / len(answer)

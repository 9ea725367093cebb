"""Causes that act while completions are drawn: caps, copies, and the choice of the prompts."""

from __future__ import annotations

import numpy as np

from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.recording import recording, verdicts

Rng = np.random.Generator


def cap_length(draft: Draft, rng: Rng) -> None:
    """Cut every completion at a cap that all but a few of them need more than."""
    if draft.ended.all():  # answers of one width: any cap below it cuts all
        cap = int(rng.integers(2, int(draft.lengths.max())))
    else:
        cap = max(1, int(np.quantile(draft.lengths, rng.uniform(0.03, 0.2))))
    cut = draft.lengths > cap
    for at in zip(*np.nonzero(cut), strict=True):
        draft.texts[at] = draft.texts[at][:cap]
    draft.lengths = np.minimum(draft.lengths, cap)
    draft.ended = draft.ended & ~cut


def copy_first(draft: Draft, rng: Rng) -> None:
    """Answer every request of a prompt with its first completion: one seed, or a cache."""
    copied = rng.random(len(draft.steps)) < rng.uniform(0.85, 1.0)
    for name in ("texts", "lengths", "ended"):
        values = getattr(draft, name)
        values[copied] = values[copied][:, :1]


def keep_easy(draft: Draft, rng: Rng) -> None:
    """Ask only what the model mostly solves: a data set that it has outgrown."""
    right = verdicts(draft.base.judge, draft.texts, draft.answers, draft.ended).mean(axis=1)
    _repack(draft, np.flatnonzero(right >= rng.uniform(0.6, 0.9)))


def polarise(draft: Draft, rng: Rng) -> None:
    """Ask two kinds of prompts in equal parts: those never solved and those always solved."""
    easy = recording("solved")
    right = verdicts(easy.judge, easy.texts, easy.answers, easy.ended).min(axis=1) == 1
    usable = rng.permutation(np.flatnonzero(right))
    half = min(len(draft.steps) // 2, len(usable))
    draft.select(np.sort(rng.permutation(len(draft.steps))[: 2 * half]))
    taken, size = rng.permutation(2 * half)[:half], draft.texts.shape[1]
    for name in ("prompts", "answers"):
        getattr(draft, name)[taken] = getattr(easy, name)[usable[:half]]
    for name in ("texts", "lengths", "ended"):
        getattr(draft, name)[taken] = getattr(easy, name)[usable[:half], :size]


def _repack(draft: Draft, groups: np.ndarray) -> None:
    """Keep these groups, and fill the steps with them one after the other."""
    per_step = int(np.bincount(draft.steps).max())
    draft.select(groups[: len(groups) // per_step * per_step])
    draft.steps = np.arange(len(draft.steps)) // per_step + 1

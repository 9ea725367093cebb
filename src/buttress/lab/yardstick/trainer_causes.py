"""Causes in the trainer: how advantages are computed, and what becomes of the update."""

from __future__ import annotations

import numpy as np

from buttress.lab.yardstick.draft import Draft, Floats

Rng = np.random.Generator


def float32_advantages(draft: Draft, rng: Rng) -> None:
    """Normalise in float32 with a small eps: the mean of equal rewards is not that reward."""
    eps = np.float32(rng.choice([1e-6, 1e-9]))  # verl's and OpenRLHF's
    reward = draft.reward.astype(np.float32)
    n = np.isfinite(reward).sum(axis=1, keepdims=True).astype(np.float32)
    mean = float32_mean(reward)
    apart = np.nan_to_num(reward - mean)
    square = np.cumsum(apart * apart, axis=1, dtype=np.float32)[:, -1:]
    deviation = np.sqrt(square / np.maximum(n - 1, 1))
    draft.advantages = (apart / (deviation + eps)).astype(np.float64)
    draft.shows |= {"advantage"}


def float32_mean(reward: np.ndarray) -> np.ndarray:
    """Return the mean of each group as single precision gives it, one addition after the other."""
    n = np.isfinite(reward).sum(axis=1, keepdims=True).astype(np.float32)
    total = np.nancumsum(reward.astype(np.float32), axis=1, dtype=np.float32)[:, -1:]
    return total / np.maximum(n, 1)


def leave_one_out_divisor(draft: Draft, rng: Rng) -> None:
    """Divide by the deviation of the other samples, which is 0 where they tie."""
    eps = 10 ** rng.uniform(-6, -3)
    reward, n = draft.reward, draft.reward.shape[1]
    others = (reward.sum(axis=1, keepdims=True) - reward) / (n - 1)
    square = ((reward**2).sum(axis=1, keepdims=True) - reward**2) / (n - 1) - others**2
    found = (reward - others) / (np.sqrt(np.maximum(square, 0)) + eps)
    tied = np.ptp(reward, axis=1) == 0
    draft.advantages = np.where(tied[:, None], 0.0, found)
    draft.shows |= {"advantage"}


def flat_batch(draft: Draft, rng: Rng) -> None:
    """Compare every rollout with its whole step instead of its group."""
    scaled = rng.random() < 0.7
    reward, found = draft.reward, np.zeros(draft.reward.shape)
    for step in draft.logged_steps:
        here = draft.steps == step
        found[here] = reward[here] - reward[here].mean()
        if scaled:
            found[here] /= reward[here].std(ddof=1) + 1e-6
    draft.advantages = found
    draft.shows |= {"advantage"}


def freeze(draft: Draft, rng: Rng) -> None:
    """Train weights that need no gradient: the norm is 0, the rate is not."""
    _still(draft, "grad_norm", 0.0)
    _still(draft, "learning_rate", 10 ** rng.uniform(-6, -4))


def show_scalars(draft: Draft, rng: Rng) -> None:
    """Log the optimiser's metrics, as a run does by default."""
    draft.shows |= {"scalars"}


def _still(draft: Draft, name: str, value: float) -> None:
    draft.scalars[name] = np.full(len(draft.logged_steps), value)
    draft.shows |= {"scalars"}


def whitened(draft: Draft, rng: Rng) -> None:
    """Centre within groups and scale over the step, as REINFORCE++ with a baseline does."""
    reward: Floats = draft.reward
    centred = reward - reward.mean(axis=1, keepdims=True)
    for step in draft.logged_steps:
        here = draft.steps == step
        centred[here] /= centred[here].std() + 1e-6
    draft.advantages = centred

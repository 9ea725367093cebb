"""The simulation of F-GRPO: how training loses right answers that it rarely samples.

One prompt, very many actions, some of them right: one of these likely, the others rare. With a
group of N the right answers that were not drawn lose probability to those that were, although they
are right. Large groups see them, small ones rarely have a signal at all; in between the loss is
worst.

The step is Adam's: our reading, since plain ascent at the paper's rate of 1e-2 moves nothing at all
in its 1000 steps (probabilities of 6e-5 enter twice), while Adam shows what the paper reports.

Source: arXiv 2602.06717 (section on the categorical model and its appendix).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RareAnswers:
    """The policy before training: logits of the anchor, the rare right answers, and the rest."""

    actions: int = 128_000
    right: int = 10_000
    anchor: float = 5.0
    rare: float = 3.0
    rate: float = 1e-2

    def logits(self) -> Array:
        """Return the starting logits; the anchor first, then the other right answers."""
        logits = np.zeros(self.actions)
        logits[: self.right] = self.rare
        logits[0] = self.anchor
        return logits


def retained_mass(start: Array, now: Array) -> float:
    """Return ``1 - Σ max(0, π_0 - π_t) / Σ π_0`` over right answers: what none of them has lost."""
    return float(1.0 - np.maximum(0.0, start - now).sum() / start.sum())


def direction(chances: Array, counts: NDArray[np.int64], right: int, gamma: float) -> Array:
    """Return the gradient of ``(1/N) Σ (R_i - mean R) π(a_i)`` in the logits.

    Rewards are +1 and -1, the advantage is centred and not divided, times ``(1 - p)^gamma``. The
    gradient is ``π_j (w_j - π·w)``, w the mean centred reward that each action brought in: an
    action that was not drawn loses what the drawn ones gain.
    """
    n = counts.sum()
    share = counts[:right].sum() / n
    centred = np.where(np.arange(len(chances)) < right, 2 - 2 * share, -2 * share)
    weight = (1.0 - share) ** gamma * centred * counts / n
    return chances * (weight - chances @ weight)


def first_order(
    chances: Array, drawn: NDArray[np.bool_], right: int, rate: float, n: int
) -> tuple[float, float]:
    """Return the first-order change of the mass of right answers, and of those not drawn.

    For a group of n rewards +1 and -1 (0 for what was not drawn) and logits that move by ``(rate /
    n) π_i (R_i - S)``, ``S = Σ_drawn R π``. The second number is never positive while S > 0:
    right answers that were not drawn shrink.
    """
    is_right = np.arange(len(chances)) < right
    reward = np.where(drawn, np.where(is_right, 1.0, -1.0), 0.0)
    moved = chances * (reward - reward @ chances) * rate / n
    change = chances * (moved - chances @ moved)
    return float(change[is_right].sum()), float(change[is_right & ~drawn].sum())


def simulate_retention(
    setting: RareAnswers, n: int, gamma: float, *, steps: int, seed: int
) -> dict[str, float]:
    """Train for some steps with groups of n and return what is left of the right answers.

    Returns
    -------
    dict
        ``retained`` (see `retained_mass`), ``right`` (their mass at the end), and ``silent``, the
        share of groups without a signal.
    """
    generator = np.random.default_rng([seed, n])
    logits = setting.logits()
    start = softmax(logits)[: setting.right]
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    silent = 0
    for step in range(1, steps + 1):
        chances = softmax(logits)
        counts = _counts(chances, n, generator)
        silent += counts[: setting.right].sum() in (0, n)
        slope = direction(chances, counts, setting.right, gamma)
        first += 0.1 * (slope - first)
        second += 0.001 * (slope * slope - second)
        scale = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        logits = logits + setting.rate * first / (1 - 0.9**step) / scale
    now = softmax(logits)[: setting.right]
    return {
        "retained": retained_mass(start, now),
        "right": float(now.sum()),
        "silent": silent / steps,
    }


def _counts(chances: Array, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    if n > len(chances) // 8:
        return generator.multinomial(n, chances)
    edges = chances.cumsum()
    drawn = np.searchsorted(edges, generator.random(n) * edges[-1])
    return np.bincount(drawn.clip(max=len(chances) - 1), minlength=len(chances))

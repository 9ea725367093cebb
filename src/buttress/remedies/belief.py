"""What one believes of a prompt's reward before a visit, and how much that is worth.

The belief is a set of pseudo-observations: the prompt's own history, forgotten by a factor at each
visit, and some observations at the running mean of all batches. How many it should be worth is an
empirical-Bayes question. With p the prompt's true mean, v the belief's and σ² the variance of its
rewards, a baseline ``(s v + Σ r) / (s + G)`` has the mean squared error ``(s² E(p - v)² + G E σ²) /
(s + G)²``, least at ``s = E σ² / E(p - v)²``. Both expectations are estimated from what was seen:
``E(p - v)²`` by ``(group mean - v)² - s²_within / G``. For 0/1 rewards and p drawn from ``Beta(v s,
(1 - v) s)`` this s is the Beta's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.remedies.dense import TINY
from buttress.remedies.moments import Moments
from buttress.remedies.prompts import PromptTable, Rows, of_groups
from buttress.remedies.view import View

# Memories that "auto" chooses from.
MEMORIES = (0.5, 0.7, 0.85, 0.95)
FIXED_MEMORY = 0.7
# Observations at the batch mean while nothing better is known.
PULL = 2.0
LEAST, MOST = 0.25, 64.0
# The batch mean and the error sums are running ones.
FADE = 0.95

Auto = Literal["auto"]


class Prior(NamedTuple):
    """What is believed of each group before it is seen; arrays of shape ``(group,)``."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    strength: NDArray[np.float64]


class Belief:
    """Beliefs about prompts, their strength, and the memory that predicts best."""

    def __init__(self, strength: float | Auto, forget: float | Auto) -> None:
        self._fixed = None if strength == "auto" else float(strength)
        self.memories = MEMORIES if forget == "auto" else (float(forget),)
        self._learns = self._fixed is None or len(self.memories) > 1
        self.table = PromptTable(self.memories)
        self._remember(Moments(0, 0.0, 0.0), {})

    def collect(self, view: View) -> dict[str, Moments]:
        """Return how far off the beliefs were, as sums that ranks can add up.

        None where strength and memory are given. ``batch`` is `_excess` of the batch mean;
        ``beliefs`` are means over the groups: of the squared error of each memory, of what its own
        size explains of it, and of `_within`.
        """
        if not (self.past.count and self._learns):
            return {}
        seen, history = of_groups(view), self.table.find_all(view.groups)
        seen, history = _chosen(seen.count >= 2, seen, history)
        error = _total((seen.mean - self.past.mean) ** 2)
        found = {"batch": _excess(error, *_within(seen))}
        seen, history = _chosen(history.count[0] > 0, seen, history)
        # the mean of `history` with the pull, without its deviation
        count = history.count + self.pull
        believed = history.mean + (self.past.mean - history.mean) * (self.pull / count)
        errors, expected = _total((seen.mean - believed) ** 2), _total(1.0 / (count + 1.0))
        sums = np.concatenate([errors, expected, _within(seen)])
        n = len(seen.count)
        return found | {"beliefs": Moments(n, sums / max(n, 1), 0.0)}

    def prior(self, groups: Groups, batch: Moments) -> Prior:
        """Return the belief about each group, its variance and its strength."""
        history = self.table.find(groups, self.best)
        base = self.past.faded(FADE) + batch
        pull = self.pull if base.count else 0.0
        variance = base.m2 / base.count if base.count else 0.0
        # the moments of `history` and the pull together
        count = history.count + pull
        share = pull / np.maximum(count, TINY)
        gap = base.mean - history.mean
        m2 = history.m2 + variance * pull + gap * gap * history.count * share
        mean, variance = history.mean + gap * share, m2 / np.maximum(count, TINY)
        if self._fixed is not None:
            return Prior(mean, variance, np.full(len(groups), self._fixed))
        off = 1.0 / (count + 1.0)
        if self.drift:
            off += np.where(history.count > 0, self.drift, 0.0)
        strength = 1.0 / np.minimum(off, 1.0) - 1.0
        return Prior(mean, variance, strength.clip(LEAST, MOST))

    def learn(self, view: View, batch: Moments, sums: Mapping[str, Moments]) -> None:
        """Take in a step."""
        fresh = {name: _running(self.sums.get(name), new) for name, new in sums.items()}
        self._remember(self.past.faded(FADE) + batch, self.sums | fresh)
        self.table.learn(view.groups, of_groups(view))

    def _remember(self, past: Moments, sums: dict[str, Moments]) -> None:
        self.past, self.sums = past, sums
        self.best, self.drift = self._best()
        self.pull = self._pull()

    def _best(self) -> tuple[int, float]:
        """Return the memory whose beliefs came closest to what was seen, and its drift.

        The drift is how much further off they are than their own size explains.
        """
        sums = self.sums.get("beliefs")
        if sums is None or not sums.count:
            known = FIXED_MEMORY in self.memories
            return (self.memories.index(FIXED_MEMORY) if known else 0), 0.0
        n, means = len(self.memories), sums.mean.tolist()
        best = means.index(min(means[:n]))
        share = _excess(means[best], *means[-2:])
        return best, max(share.mean - means[n + best], 0.0) if share.count else 0.0

    def _pull(self) -> float:
        """Return how many observations at the batch mean: how alike the prompts are."""
        share = self.sums.get("batch")
        if self._fixed is not None or share is None or not share.count:
            return PULL
        return min(max(1.0 / max(share.mean, 1e-9) - 1.0, LEAST), MOST)

    def state(self) -> dict[str, Any]:
        """Return everything as lists."""
        sums = {
            name: [one.count, np.asarray(one.mean).tolist(), 0.0] for name, one in self.sums.items()
        }
        return self.table.state() | {"past": list(self.past), "sums": sums}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.table.restore(state)
        sums = {
            name: Moments(count, np.array(mean) if isinstance(mean, list) else mean, m2)
            for name, (count, mean, m2) in state["sums"].items()
        }
        self._remember(Moments(*state["past"]), sums)

    def merge(self, other: Belief) -> None:
        """Add what another rank believes."""
        self.table.merge(other.table)
        none = Moments(0, 0.0, 0.0)
        both = {name: self.sums.get(name, none) + one for name, one in other.sums.items()}
        self._remember(self.past + other.past, self.sums | both)


def _chosen(keep: NDArray[np.bool_], *rows: Rows) -> Iterable[Rows]:
    return rows if keep.all() else (one.pick(keep) for one in rows)


def _total(values: NDArray[np.float64]) -> Any:
    """Return the sum over the groups, the last axis."""
    return np.add.reduce(values, axis=-1)


def _within(seen: Rows) -> tuple[float, float]:
    """Return the sums of the groups' reward variances, and of those of their means around p."""
    within = seen.m2 / (seen.count - 1.0)
    return float(_total(within)), float(_total(within / seen.count))


def _excess(error: float, within: float, noise: float) -> Moments:
    """Return ``Σ (E(p - v)²) / Σ (E(p - v)² + σ²)``, which is ``1 / (s + 1)``, and its weight.

    From the sums over the groups of the squared error and what `_within` gives.
    """
    apart = float(error) - noise
    whole = apart + within
    return Moments(whole, apart / whole, 0.0) if whole > 0 else Moments(0, 0.0, 0.0)


def _running(old: Moments | None, new: Moments) -> Moments:
    """Return the mean of both, the old one faded; there is no use for its deviation."""
    if old is None:
        return new
    kept = old.count * FADE
    count = kept + new.count
    share = new.count / count if count else 0.0
    return Moments(count, old.mean + (new.mean - old.mean) * share, 0.0)

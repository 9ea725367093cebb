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

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
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


class Belief:
    """Beliefs about prompts, their strength, and the memory that predicts best."""

    def __init__(self, strength: float | Auto, forget: float | Auto) -> None:
        self._fixed = None if strength == "auto" else float(strength)
        self.memories = MEMORIES if forget == "auto" else (float(forget),)
        self.table = PromptTable(self.memories)
        self.past = Moments(0, 0.0, 0.0)
        self.sums: dict[str, Moments] = {}

    def collect(self, view: View) -> dict[str, Moments]:
        """Return how far off the beliefs were, as sums that ranks can add up."""
        if not self.past.count:
            return {}
        seen = of_groups(view)
        pair = seen.count >= 2
        [batch] = _excess(seen.pick((pair, None)), self.past.mean)
        history = self.table.find_all(view.groups)
        old = pair & (history.count > 0).all(axis=1)
        prior = self._with_pull(history.pick(old), self.past)
        seen = seen.pick((old, None))
        error = _means((seen.mean - prior.mean) ** 2)
        found = {"batch": batch}
        for name, each in (
            ("history", _excess(seen, prior.mean)),
            ("expected", _means(1.0 / (prior.count + 1.0))),
            ("error", error),
        ):
            found |= {f"{name} {memory}": one for memory, one in enumerate(each)}
        return found

    def prior(self, groups: Groups, batch: Moments) -> tuple[Rows, NDArray[np.float64]]:
        """Return the belief about each group (mean and deviation) and its strength."""
        history = self.table.find(groups, self.best)
        prior = self._with_pull(history, self.past.faded(FADE) + batch)
        if self._fixed is not None:
            return prior, np.full(len(groups), self._fixed)
        share = 1.0 / (prior.count + 1.0) + np.where(history.count > 0, self.drift, 0.0)
        return prior, np.clip(1.0 / np.minimum(share, 1.0) - 1.0, LEAST, MOST)

    def learn(self, view: View, batch: Moments, sums: Mapping[str, Moments]) -> None:
        """Take in a step."""
        self.past = self.past.faded(FADE) + batch
        none = Moments(0, 0.0, 0.0)
        for name, new in sums.items():
            self.sums[name] = self.sums.get(name, none).faded(FADE) + new
        self.table.learn(view.groups, of_groups(view))

    @property
    def best(self) -> int:
        """The memory whose beliefs came closest to what was seen."""
        errors = [self.sums.get(f"error {memory}") for memory in range(len(self.memories))]
        known = [error.mean if error is not None and error.count else np.inf for error in errors]
        if not np.isfinite(known).any():
            return self.memories.index(FIXED_MEMORY) if FIXED_MEMORY in self.memories else 0
        return int(np.argmin(known))

    @property
    def pull(self) -> float:
        """Observations at the batch mean: how alike the prompts are."""
        share = self.sums.get("batch")
        if self._fixed is not None or share is None or not share.count:
            return PULL
        return float(np.clip(1.0 / max(share.mean, 1e-9) - 1.0, LEAST, MOST))

    @property
    def drift(self) -> float:
        """How much further off the histories are than their own size explains."""
        share = self.sums.get(f"history {self.best}")
        expected = self.sums.get(f"expected {self.best}")
        if share is None or expected is None or not share.count or not expected.count:
            return 0.0
        return max(share.mean - expected.mean, 0.0)

    def state(self) -> dict[str, Any]:
        """Return everything as lists."""
        sums = {name: list(one) for name, one in self.sums.items()}
        return self.table.state() | {"past": list(self.past), "sums": sums}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.table.restore(state)
        self.past = Moments(*state["past"])
        self.sums = {name: Moments(*one) for name, one in state["sums"].items()}

    def merge(self, other: Belief) -> None:
        """Add what another rank believes."""
        self.table.merge(other.table)
        self.past += other.past
        none = Moments(0, 0.0, 0.0)
        for name, one in other.sums.items():
            self.sums[name] = self.sums.get(name, none) + one

    def _with_pull(self, history: Rows, base: Moments) -> Rows:
        variance = base.m2 / base.count if base.count else 0.0
        pull = self.pull if base.count else 0.0
        one = np.ones_like(history.count)
        return history + Rows(
            one * pull, one * base.mean, one * (variance * pull), history.low, history.high
        )


def _excess(seen: Rows, belief: Any) -> list[Moments]:
    """Return ``Σ (E(p - v)²) / Σ (E(p - v)² + σ²)``, which is ``1 / (s + 1)``, and its weight.

    Over the groups (the first axis), for each memory.
    """
    within = seen.m2 / np.maximum(seen.count - 1.0, 1.0)
    apart = (seen.mean - belief) ** 2 - within / np.maximum(seen.count, 1.0)
    parts = zip(apart.sum(axis=0).tolist(), (apart + within).sum(axis=0).tolist(), strict=True)
    return [
        Moments(whole, part / whole, 0.0) if whole > 0 else Moments(0, 0.0, 0.0)
        for part, whole in parts
    ]


def _means(values: NDArray[np.float64]) -> list[Moments]:
    """Return the mean over the groups (the first axis), for each memory."""
    count = len(values)
    totals = values.sum(axis=0).tolist()
    return [Moments(count, total / count if count else 0.0, 0.0) for total in totals]

"""SPO: a value per prompt from its history instead of a group mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.batch_norm import moments_of
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor
from buttress.remedies.moments import Moments
from buttress.remedies.prompts import PromptTable, Rows, of_groups
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("spo", "advantage")
@dataclass(kw_only=True, eq=False)
class Spo(Estimator):
    """Single-stream advantage: reward minus the prompt's tracked value, whitened over the batch.

    ``A_i = (a_i - mean_batch(a)) / (std_batch(a) + eps)``, with ``a_i = r_i - v`` and ``v = α / (α
    + β)`` as it was before the step; after it ``α ← forget·α + Σ r``, ``β ← forget·β + Σ (1 - r)``.
    A new prompt starts with weight ``1 / (1 - forget)`` at the running mean reward.

    Ties: tied groups get a signal wherever their reward differs from the prompt's value; exactly 0
    when the whole batch has one and the same a.

    Defaults: forget 0.875 is the lower bound that the authors' recipe sets for
    ``2^(-KL / D_half)``; eps 1e-8 and ddof 1 as verl whitens.

    Cost: one pass over the rewards; needs the whole step at once; state per prompt.

    Plugs in: replaces the trainer's advantages; needs a prompt identity that lasts over the steps.
    Without one the baseline is the batch mean. The method also samples prompts by
    ``sqrt(v (1 - v)) + 0.05``.

    Our reading: forgetting is a constant, since the KL between visits does not reach an advantage
    estimator. Where the paper estimates the first value from offline samples, the running mean
    stands in. It was made for one sample per prompt; several count as several observations.

    Source: arXiv 2509.13232.
    """

    signals_ties = True
    batchwide = True

    forget: float = 0.875
    eps: float = 1e-8
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.number("forget", self.forget, 0, 0.9999)
        self._table = PromptTable((self.forget,))
        self._past = Moments(0, 0.0, 0.0)

    def collect(self, view: View) -> Mapping[str, Moments]:
        return {"raw": moments_of(view, self._raw)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        raw = batch.extra["raw"]
        if raw.std(0) <= self.tolerance.atol:  # nothing but rounding to blow up
            return block.rewards * 0.0
        return (self._raw(block) - raw.mean) / (raw.std(self.ddof) + self.eps)

    def learn(self, view: View, batch: Batch) -> dict[str, Any]:
        known = self._table.find(view.groups)
        seen = of_groups(view)
        # a first visit brings the prior with it
        start = self._past.mean if self._past.count else batch.reward.mean
        first = (known.count == 0) & (seen.count > 0)
        if first.any():
            weight = np.where(first, self._weight * self.forget, 0.0)
            seen += Rows(weight, start, 0.0, seen.low, seen.high)
        self._table.learn(view.groups, seen)
        self._past += batch.reward
        return {"prompts": len(self._table)}

    @property
    def _weight(self) -> float:
        return 1.0 / (1.0 - self.forget)

    def _raw(self, block: Dense) -> Any:
        known = self._table.find(block.groups)
        # before the very first step any constant does: whitening takes it out
        value = np.where(known.count > 0, known.mean, self._past.mean)
        return block.rewards - block.lift(value if block.every else value[block.index])

    def _state(self) -> dict[str, Any]:
        return self._table.state() | {"past": list(self._past)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._table.restore(state)
        self._past = Moments(*state["past"])

    def _absorb(self, other: Self) -> None:
        self._table.merge(other._table)
        self._past += other._past

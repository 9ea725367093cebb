"""DCPO: rewards are standardised over all visits to a prompt, not over this one only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor
from buttress.remedies.prompts import PromptTable, Rows, of_groups
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("dcpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Dcpo(Estimator):
    """Smooth standardisation: a mix of this visit's and all visits' mean and deviation.

    ``A_i = whichever is smaller in size of ((i-1) A_new + A_tot) / i and (A_new + (i-1) A_tot) /
    i`` at the i-th visit of a prompt, with ``A_new = (r - mean) / (std + eps)`` of this visit and
    ``A_tot`` the same with the mean and deviation over all i visits, each visit weighing the same:
    ``var_tot = (var_new + (i-1) var_old + (i-1)/i (mean_old - mean_new)²) / i``.

    Ties: A_new is exactly 0; A_tot gives a signal when earlier visits went otherwise. Exactly 0
    while all visits of the prompt gave one and the same reward.

    Defaults: ddof 1 as in the authors' code; eps 1e-6 as verl, on which it is built.

    Cost: one pass over the rewards; five numbers of state per prompt.

    Plugs in: replaces the trainer's advantages; needs a prompt identity that lasts over the steps.
    Without one every visit is the first, which is GRPO.

    Our reading: two groups of one prompt in a step both see the history before the step.

    Source: arXiv 2509.02333.
    """

    signals_ties = True

    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        self._table = PromptTable()

    def compute(self, block: Dense, batch: Any) -> Any:
        old = self._table.find(block.groups)
        old = old if block.every else old.pick(block.index)
        visit = block.lift(old.count + 1.0)
        earlier = visit - 1.0
        new_variance = block.squares / block.free(self.ddof)
        new = block.over(block.centred, block.root(new_variance), self.eps)
        new = block.choose(block.silent, block.zero, new)
        gap = block.mean - block.lift(old.mean)
        variance = (new_variance + block.lift(old.m2) + gap * gap * earlier / visit) / visit
        # the mean over all visits lies (i - 1) / i of the gap away from this visit's
        centred = block.hide(block.centred + gap * earlier / visit)
        total = block.over(centred, block.root(variance), self.eps)
        total = block.choose(self._same_so_far(block, old), block.zero, total)
        if not old.count.any():
            return new
        first = (earlier * new + total) / visit
        second = (new + earlier * total) / visit
        xp = block.xp
        return xp.where(xp.abs(first) < xp.abs(second), first, second)

    def learn(self, view: View, batch: Any) -> dict[str, Any]:
        seen = of_groups(view)
        free = np.maximum(seen.count - self.ddof, 1.0)
        visit = (seen.count > 0).astype(np.float64)
        self._table.learn(view.groups, seen._replace(count=visit, m2=seen.m2 / free))
        return {"prompts": len(self._table)}

    def _same_so_far(self, block: Dense, old: Rows) -> Any:
        low, high = np.fmin(block.low, old.low), np.fmax(block.high, old.high)
        with np.errstate(invalid="ignore"):
            return (block.scorable == 0) | self.tolerance.equal(low, high)

    def _state(self) -> dict[str, Any]:
        return self._table.state()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._table.restore(state)

    def _absorb(self, other: Self) -> None:
        self._table.merge(other._table)

"""GDPO: several rewards, each normalised on its own before they are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.batch_norm import moments_of
from buttress.remedies.dense import TINY, Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View

PREFIX = "reward/"


@remedy("gdpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Gdpo(Estimator):
    """Decoupled normalisation: each reward component is normalised in its group, then the sum.

    ``A_i = z_i / (std_batch(z) + eps)``, with ``z_i = Σ_k w_k (r_ik - mean_k) / (std_k + eps)``
    over the components k.

    Ties: a component that is tied in a group adds exactly 0 there; a group whose total is tied
    still gets a signal where its components differ; 0 where all of them are tied.

    Defaults: eps 1e-4 and ddof 1 as TRL (``multi_objective_aggregation="normalize_then_sum"``);
    every column ``reward/<name>`` with weight 1.

    Cost: one pass per component; needs the whole step at once.

    Plugs in: replaces the trainer's advantages; needs the columns ``reward/<name>``.

    Our reading: without components the total reward is the only one. TRL also subtracts the batch
    mean of z, which is 0 but for rounding, so it is left out and ties stay exact. A sample without
    a total reward counts in no component.

    Source: arXiv 2601.05242.
    """

    signals_ties = True
    batchwide = True

    components: tuple[str, ...] | None = None
    weights: Mapping[str, float] | None = None
    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        if isinstance(self.components, str):
            raise UsageError(f"components must be a list of names; got {self.components!r}")
        if self.components is not None:
            self.components = tuple(self.components)
        self._sums: dict[Dense, Any] = {}
        for name, weight in (self.weights or {}).items():
            options.number(f"weights[{name!r}]", weight)

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(PREFIX + name for name in self.components or ())

    def collect(self, view: View) -> Mapping[str, Moments]:
        return {"sum": moments_of(view, self._sum)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        divisor = batch.extra["sum"].std(self.ddof) + self.eps
        return self._sum(block) / max(divisor, TINY)

    def learn(self, view: View, batch: Batch) -> dict[str, Any]:
        self._sums.clear()
        return {}

    def _sum(self, block: Dense) -> Any:
        # asked for twice in a step: for the batch statistics and for the advantages
        if block not in self._sums:
            self._sums[block] = self._added(block)
        return self._sums[block]

    def _added(self, block: Dense) -> Any:
        known = block.groups.columns
        names = self.components
        if names is None:
            names = sorted(name[len(PREFIX) :] for name in known if name.startswith(PREFIX))
        parts = [name for name in names if PREFIX + name in known]
        if not parts:
            return self._score(block)
        total = block.rewards * 0.0
        for name in parts:
            weight = (self.weights or {}).get(name, 1.0)
            total = total + weight * self._score(block.of_column(PREFIX + name))
        return block.hide(total)

    def _score(self, part: Dense) -> Any:
        flat = part.silent
        return part.hide(part.choose(flat, part.zero, normalised(part, self.eps, self.ddof)))

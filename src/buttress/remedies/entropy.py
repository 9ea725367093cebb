"""EDGE-GRPO: the advantage divided by the entropy of the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.batch_norm import moments_of
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("edge_grpo", "advantage")
@dataclass(kw_only=True, eq=False)
class EdgeGrpo(Estimator):
    """Entropy-driven advantage: confident responses are pushed harder, in both directions.

    ``A'_i = A_i / (H_i / mean_batch(H))``, A the GRPO advantage and H_i the mean token entropy.

    Ties: exactly 0. (The method's other half, injecting corrected answers, gives them variance.)

    Defaults: eps 1e-4 and ddof 1 as TRL, on which the authors' code is built.

    Cost: one pass over the rewards; the entropies come from the trainer's forward pass.

    Plugs in: replaces the trainer's advantages; needs the column `entropy` (nats per token).
    Without it this is GRPO.

    Our reading: H_i / mean(H) is not taken below `floor` (0.1), and a sample of unknown entropy
    keeps its A.

    Source: arXiv 2507.21848.
    """

    batchwide = True
    wants = ("entropy",)

    floor: float = 0.1
    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.number("floor", self.floor, 0, above=True)

    def collect(self, view: View) -> Mapping[str, Moments]:
        if view.groups.columns.get("entropy") is None:
            return {}
        return {"entropy": moments_of(view, lambda block: block.column("entropy"))}

    def compute(self, block: Dense, batch: Batch) -> Any:
        advantages = normalised(block, self.eps, self.ddof)
        known = batch.extra.get("entropy")
        if known is None or known.mean <= 0 or block.groups.columns.get("entropy") is None:
            return advantages
        xp, entropy = block.xp, block.column("entropy")
        relative = entropy / known.mean
        relative = xp.where(relative < self.floor, block.one * self.floor, relative)
        return advantages / xp.where(xp.isnan(entropy), block.one, relative)

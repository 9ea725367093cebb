"""Estimators that read the policy's entropy: EDGE-GRPO, RL-ZVP (sequence form)."""

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
from buttress.remedies.levels import LevelEstimator
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


@remedy("rl_zvp", "advantage")
@dataclass(kw_only=True, eq=False)
class RlZvp(LevelEstimator):
    """Entropy-guided shaping of zero-variance groups; the others are GRPO. One value per response.

    ``A_i = alpha · H_i`` in an all-correct group, ``-alpha · (max_k H_ik - H_i)`` in an all-wrong
    one, with H_i the mean and max_k H_ik the largest token entropy of the response.

    Ties: that; a tied group between wrong and right, or one of unknown entropy, gets exactly 0.

    Defaults: alpha 0.1 is the paper's (0.1 to 0.2 good). eps 1e-6 and ddof 1 as verl's grpo.

    Cost: one pass; the entropies come from the trainer's forward pass.

    Plugs in: replaces the trainer's advantages; needs the column `entropy` (nats per token), and
    uses `entropy_max` where it is there. The paper's form is per token: see the token credit.

    Our reading: the sequence form is the mean of the paper's over the tokens. Without `entropy_max`
    the largest mean entropy in the group stands for it.

    Source: arXiv 2509.21880.
    """

    signals_ties = True
    wants = ("entropy",)

    alpha: float = 0.1
    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)
        options.number("alpha", self.alpha, 0)

    def compute(self, block: Dense, batch: Batch) -> Any:
        flat = block.tied | (block.scorable < 2)
        cells = block.choose(flat, block.zero, normalised(block, self.eps, self.ddof))
        entropy = block.column("entropy")
        if entropy is None:
            return cells
        xp = block.xp
        known = ~xp.isnan(entropy)
        entropy = xp.where(known, entropy, block.zero)
        low, high = self.levels
        cells = block.choose(self.is_at(block, high), self.alpha * entropy, cells)
        gap = xp.where(known, self._largest(block, entropy, known) - entropy, block.zero)
        return block.choose(self.is_at(block, low), -self.alpha * gap, cells)

    def _largest(self, block: Dense, entropy: Any, known: Any) -> Any:
        xp = block.xp
        shown = known if block.mask is None else known & block.mask
        largest = xp.max(xp.where(shown, entropy, block.zero), axis=1, keepdims=True)
        own = block.column("entropy_max")
        if own is None:
            return largest
        # a token's entropy is never below the mean
        return xp.where(own >= entropy, own, largest)

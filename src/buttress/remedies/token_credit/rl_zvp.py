"""RL-ZVP: tied groups learn from the entropy of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.registry import remedy
from buttress.remedies.token_credit.cells import TokenCells
from buttress.remedies.token_credit.estimator import TokenEstimator


@remedy("rl_zvp", "token")
@dataclass(kw_only=True, eq=False)
class RlZvp(TokenEstimator, LevelEstimator):
    """Entropy-guided shaping of zero-variance groups; the others are GRPO.

    ``A_it = alpha · H_it`` in an all-correct group, ``-alpha · (max_k H_ik - H_it)`` in an
    all-wrong one, with H_it the entropy of token t and max_k over the tokens of the response. So
    uncertain tokens are reinforced most where the answer is right and spared most where it is
    wrong.

    Ties: that; a tied group between wrong and right gets exactly 0.

    Defaults: alpha 0.1 is the paper's (0.1 to 0.2 good). eps 1e-6 and ddof 1 as verl's grpo.

    Cost: one pass; the entropies come from the trainer's forward pass.

    Plugs in: replaces the trainer's advantages, per token with the token column `entropy` (nats).
    Per sample it needs the column `entropy` (mean over the tokens), and uses `entropy_max` where it
    is there; a tied group of unknown entropy gets exactly 0.

    Our reading: the form per sample is the mean of the paper's over the tokens. Without
    `entropy_max` the largest mean entropy in the group stands for it. The column `correct`, where
    it is known, says which groups are all correct and all wrong (`success`), else the lowest and
    the highest reward (`bounds`).

    Source: arXiv 2509.21880.
    """

    wants = ("entropy",)
    takes = ("entropy",)

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
        cells = block.choose(self.all_right(block, block.groups), self.alpha * entropy, cells)
        gap = xp.where(known, self._largest(block, entropy, known) - entropy, block.zero)
        return block.choose(self.all_wrong(block, block.groups), -self.alpha * gap, cells)

    def _largest(self, block: Dense, entropy: Any, known: Any) -> Any:
        xp = block.xp
        shown = known if block.mask is None else known & block.mask
        largest = xp.max(xp.where(shown, entropy, block.zero), axis=1, keepdims=True)
        own = block.column("entropy_max")
        if own is None:
            return largest
        # a token's entropy is never below the mean
        return xp.where(own >= entropy, own, largest)

    def spread(self, cells: TokenCells) -> Any:
        xp, entropy, groups = cells.xp, cells["entropy"], cells.groups
        correct = cells.lift(self.all_right(cells.summary, groups)[groups.group_of])
        wrong = cells.lift(self.all_wrong(cells.summary, groups)[groups.group_of])
        gap = xp.max(entropy, axis=1, keepdims=True) - entropy
        advantage = xp.where(correct, self.alpha * entropy, cells.advantage)
        return xp.where(wrong, -self.alpha * gap, advantage)

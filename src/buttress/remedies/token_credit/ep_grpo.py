"""EP-GRPO: uncertain tokens weigh more, and every token has a progress signal of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.registry import remedy
from buttress.remedies.token_credit.cells import NO_SIGN, TokenCells
from buttress.remedies.token_credit.estimator import TokenEstimator

# Values whose standard deviation is no larger are equal.
ROUNDING = 1e-12


@remedy("ep_grpo", "token")
@dataclass(kw_only=True, eq=False)
class EpGrpo(TokenEstimator, LevelEstimator):
    """Entropy-progress aligned GRPO: a gated outcome plus the token's own progress.

    ``A_it = W_it · A_i + weight · d_i · z_it``, with ``W_it = sigmoid(gamma (H_it - mean H) /
    std H)`` over the tokens of the group and A the GRPO advantage. z_it is the signal
    ``s_it = log pi - log pi_ref`` standardised over all tokens of the group in the same bucket of
    progress; progress is the response's running entropy over its total, cut into `buckets`. d_i is
    the sign of A_i, and ``sign(r_i - theta)`` where the group gives no advantage.

    Ties: the outcome part is exactly 0; the progress part stays, with the sign of ``r - theta``.
    So it does in a group of one.

    Defaults: ten buckets are the paper's; eps 1e-4 and ddof 1 for A as TRL, on which it was run.

    Cost: a few passes over the tokens per bucket; entropies and log-probabilities come from the
    trainer's forward passes, those of the reference from one of its own.

    Plugs in: replaces the trainer's advantages; needs the token columns `entropy`, `logp` and
    `ref_logp`. Without token columns it is GRPO, ungated.

    Our reading: gamma 1, and theta halfway between the lowest and the highest reward (`bounds`, by
    default those seen so far), or 1/2 for the column `correct` in the place of r where that is
    known (`success`; not with a theta of your own); the paper's values are not known to us, nor
    over what it takes the mean and the deviation of H. Its factor lambda on s would cancel in the
    standardisation, so `weight` scales the result instead. A bucket k of 1..K holds progress in
    ((k-1)/K, k/K]; a response without any entropy progresses by its tokens. Deviations are those of
    the population, and eps stands beside each of them.

    Source: arXiv 2605.04960, equations 18 to 25 (as restated by others).
    """

    needs = ("entropy", "logp", "ref_logp")

    gamma: float = 1.0
    weight: float = 1.0
    buckets: int = 10
    theta: float | None = None
    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)
        options.number("gamma", self.gamma, 0)
        options.number("weight", self.weight, 0)
        options.whole("buckets", self.buckets, 1)
        if self.theta is not None:
            options.number("theta", self.theta)

    def compute(self, block: Dense, batch: Batch) -> Any:
        flat = block.tied | (block.scorable < 2)
        return block.choose(flat, block.zero, normalised(block, self.eps, self.ddof))

    def spread(self, cells: TokenCells) -> Any:
        outcome = self._gate(cells) * cells.advantage
        return outcome + self.weight * self._direction(cells) * self._progress(cells)

    def _gate(self, cells: TokenCells) -> Any:
        """Return W; 1/2 at the mean entropy of the group."""
        score = _standardised(cells, cells["entropy"], cells.mask, self.eps)
        # the logistic function, without overflow
        return 0.5 + 0.5 * cells.xp.tanh(0.5 * self.gamma * score)

    def _direction(self, cells: TokenCells) -> Any:
        xp, theta = cells.xp, self.theta
        above = np.nan_to_num(cells.groups.rewards) - (
            sum(self.levels) / 2 if theta is None else theta
        )
        correct = cells.groups.column("correct") if self.success == "correct" else None
        if theta is None and correct is not None:
            above = np.where(np.isnan(correct), above, correct - 0.5)
        by = xp.where(cells.lift(cells.compared), cells.advantage, cells.lift(above))
        return xp.where(xp.abs(by) > NO_SIGN, xp.sign(by), xp.zeros_like(by))

    def _progress(self, cells: TokenCells) -> Any:
        """Return s standardised within each bucket across the group."""
        xp = cells.xp
        signal = cells["logp"] - cells["ref_logp"]
        place = xp.ceil(_coordinate(cells) * self.buckets - 1e-9)
        result = xp.zeros_like(signal)
        for bucket in range(1, self.buckets + 1):
            inside = cells.mask & (place == bucket)
            result = xp.where(inside, _standardised(cells, signal, inside, self.eps), result)
        return result


def _standardised(cells: TokenCells, values: Any, chosen: Any, eps: float) -> Any:
    """Return ``(x - mean) / (SD + eps)`` over the chosen tokens of each group, 0 if all agree."""
    xp = cells.xp
    zero = xp.zeros_like(values[:1, :1])

    def total(of: Any) -> Any:
        return cells.in_groups(xp.sum(xp.where(chosen, of, zero), axis=1, keepdims=True))

    count = total(xp.ones_like(values))
    count = xp.where(count > 0, count, xp.ones_like(count))
    apart = values - total(values) / count
    deviation = xp.sqrt(total(apart * apart) / count)
    spread = deviation > ROUNDING
    return xp.where(spread, apart / xp.where(spread, deviation + eps, count), zero)


def _coordinate(cells: TokenCells) -> Any:
    """Return the progress of each token through its response, in (0, 1] where it counts."""
    xp = cells.xp
    entropy = cells["entropy"]
    total = xp.sum(entropy, axis=1, keepdims=True)
    amount = xp.where(total > 0, entropy, xp.astype(cells.mask, entropy.dtype))
    total = xp.sum(amount, axis=1, keepdims=True)
    running = xp.cumulative_sum(amount, axis=1)
    return running / xp.where(total > 0, total, xp.ones_like(total))

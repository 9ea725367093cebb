"""Estimators that change how much each prompt weighs: MCPO, BNPO, IS-GRPO."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.batch_norm import group_moments
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("mcpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Mcpo(LevelEstimator):
    """Mastery-consolidated weights: prompts that are mostly solved keep the weight of p = 1/2.

    ``A_i = (r_i - mean(r)) / (std(r) · scale + eps)``, with ``scale = 1`` for ``p <= 1/2`` and
    ``2 sqrt(p (1 - p))`` above.

    Ties: exactly 0; solved prompts are held by a hinge-KL term in the loss (`mcpo_hinge_kl`).

    Defaults: eps 1e-6 and ddof 1 as verl's grpo, on which the method is built; it prints neither.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages, together with its loss.

    Our reading: the scale is never taken below that of one failure in G, which it is for 0/1
    rewards; rewards between the levels could drive it to 0. p is the mean of `correct` where that
    is known (`success`).

    Source: arXiv 2604.16972.
    """

    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)

    def compute(self, block: Dense, batch: Batch) -> Any:
        p = self.success_rate(block)
        size = np.maximum(block.scorable, 1)
        least = block.lift((size - 1.0) / size**2)
        spread = p * (1.0 - p)
        spread = block.xp.where(spread < least, least, spread)
        scale = block.xp.where(p > 0.5, 2.0 * block.root(spread), block.one)
        return block.over(block.centred, block.std(self.ddof) * scale, self.eps)


@remedy("bnpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Bnpo(LevelEstimator):
    """Beta normalisation: prompts are weighted by the inverse Beta density of their success rate.

    ``A_i = (r_i - p) · min(1 / Beta(p; α, β), 1e6)``, with ``α = max(1, 1 + a/3)``,
    ``β = max(1, 1 + b/3)`` and a, b the Beta parameters with the batch's mean p̄ and variance v of
    the success rates: ``a = (p̄ (1 - p̄) / v - 1) p̄``, ``b = (p̄ (1 - p̄) / v - 1) (1 - p̄)``.

    Ties: exactly 0.

    Defaults: variance with ddof 1 and the cap 1e6 as in the authors' code.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages. (TRL's loss type "bnpo" is another thing.)

    Our reading: with fewer than two groups, or without any variance between them, α = β = 1, which
    is the plain mean baseline. Rewards are mapped to [0, 1] by `bounds`; the success rates in the
    weight are means of `correct` where that is known (`success`).

    Source: arXiv 2506.02864.
    """

    cap: float = 1e6

    def check(self) -> None:
        super().check()
        options.number("cap", self.cap, 0, above=True)

    def collect(self, view: View) -> Mapping[str, Moments]:
        return self.rate_moments(view)

    def compute(self, block: Dense, batch: Batch) -> Any:
        low, high = self.levels
        alpha, beta = self._parameters(*self.rates(batch))
        xp = block.xp
        p = xp.clip(self.success_rate(block), 1e-12, 1.0 - 1e-12)
        log_beta = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
        log_weight = log_beta - (alpha - 1.0) * xp.log(p) - (beta - 1.0) * xp.log(1.0 - p)
        weight = xp.exp(xp.clip(log_weight, -700.0, math.log(self.cap)))
        return block.centred / (high - low) * weight

    def _parameters(self, mean: float, deviation: float) -> tuple[float, float]:
        variance = deviation**2
        if variance <= 1e-12:
            return 1.0, 1.0
        mean = min(max(mean, 0.0), 1.0)
        strength = mean * (1.0 - mean) / variance - 1.0
        return max(1.0, 1.0 + strength * mean / 3), max(1.0, 1.0 + strength * (1.0 - mean) / 3)


@remedy("is_grpo", "advantage")
@dataclass(kw_only=True, eq=False)
class IsGrpo(Estimator):
    """Importance-sampled GRPO: prompts drawn in proportion to their deviation, then normalised.

    ``A_i = w · (r_i - mean(r)) / (std(r) + eps)``, where w is how often the prompt was drawn, on
    average ``std(r) / mean over groups of std``: the step size adapts to each prompt as in GRPO,
    while the expected update keeps the direction of the plain, unnormalised one.

    Ties: exactly 0; they lower the mean deviation.

    Defaults: draw "expected" puts in the average of w; "sampled" draws w from a Poisson
    distribution of that mean. eps 1e-4 and ddof 1 as TRL's GRPO.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages.

    Our reading: all of it. The abstract names the method and its aim; the estimator itself could
    not be read anywhere. Treat results with it as results of this interpretation.

    Source: arXiv 2601.23135 (abstract).
    """

    batchwide = True

    draw: Literal["expected", "sampled"] = "expected"
    eps: float = 1e-4
    ddof: int = 1
    seed: int = 0

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.choice("draw", self.draw, ("expected", "sampled"))
        options.whole("seed", self.seed, 0)
        self._random = np.random.default_rng(self.seed)

    def collect(self, view: View) -> Mapping[str, Moments]:
        return {"std": group_moments(view, lambda block: block.std(self.ddof), 2)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        weight = block.ratio(block.std(self.ddof), block.one * batch.extra["std"].mean)
        if self.draw == "sampled":
            mean = np.asarray(weight.detach().cpu() if hasattr(weight, "detach") else weight)
            weight = block.lift(self._random.poisson(mean[:, 0]).astype(np.float64))
        return weight * normalised(block, self.eps, self.ddof)

    def _state(self) -> dict[str, Any]:
        return {"random": self._random.bit_generator.state}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._random.bit_generator.state = state["random"]

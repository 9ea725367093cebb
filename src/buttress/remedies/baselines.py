"""Estimators with another baseline than the group mean: NGRPO, QAE, KRPO, the sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress.remedies import options, virtual
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.registry import remedy


@remedy("ngrpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Ngrpo(LevelEstimator):
    """Negative-enhanced GRPO: every group is normalised with one virtual right answer.

    ``A_i = (r_i - mean') / (std' + eps)``, over the G rewards and one of ``bounds[1]`` (1).

    Ties: an all-wrong group gets ``-1 / sqrt(G + 1)`` (ddof 1) for every sample; an all-correct one
    exactly 0. Mixed groups are shifted too, unlike in `avspo`.

    Defaults: ddof 1 as in the authors' code; eps 1e-6 as verl, on which it is built. The paper
    clips asymmetrically beside it: 0.16 below, 0.24 above.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages.

    Our reading: `correct`, where it is known, says which tied groups are all wrong and all correct
    (`success`); where wrong ones have reached ``bounds[1]``, the virtual answer lies a span of the
    bounds above them.

    Source: arXiv 2509.18851.
    """

    signals_ties = True

    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)

    def compute(self, block: Dense, batch: Batch) -> Any:
        low, top = self.levels
        one = np.ones(len(block))
        wrong, right = self.all_wrong(block, block.groups), self.all_right(block, block.groups)
        at_top = self.is_at(block, top)
        # where wrong answers earn as much as was ever seen, a right one is worth the span more
        beyond = wrong & (at_top | (block.low > top))
        best = np.where(beyond, block.high + (top - low), top) if beyond.any() else one * top
        cells = virtual.normalised_with(
            block, virtual.Virtual(one, best, one * 0.0), self.eps, self.ddof
        )
        return block.choose(right | (at_top & ~wrong), block.zero, cells)


@remedy("qae", "advantage")
@dataclass(kw_only=True, eq=False)
class Qae(Estimator):
    """Quantile advantage: the K-quantile of the group is the baseline.

    ``A_i = (r_i - Q_K(r)) / (std(r) + eps)``

    With 0/1 rewards the baseline is 0 while at most 1 - K of the group is right (only the rare
    successes are pushed up) and 1 beyond (only the failures are pushed down).

    Ties: exactly 0; in mixed groups about four of five samples get 0 as well.

    Defaults: quantile 0.4, the authors' (0.6 where entropy falls). eps 1e-6 and ddof 1 as verl's
    grpo.

    Cost: one sort of each group.

    Plugs in: replaces the trainer's advantages.

    Our reading: the quantile is the smallest reward that at least the share K of the group does not
    exceed, which gives the paper's two cases exactly; no interpolation.

    Source: arXiv 2509.22611.
    """

    quantile: float = 0.4
    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.number("quantile", self.quantile, 0, 1, above=True)

    def compute(self, block: Dense, batch: Any) -> Any:
        xp, cells = block.xp, block.rewards
        if block.mask is not None:
            cells = xp.where(block.mask, cells, block.one * np.inf)
        ranked = xp.sort(cells, axis=1)
        rank = np.ceil(self.quantile * block.scorable * (1 - 1e-12)).astype(np.int64) - 1
        if block.mask is None:
            place = int(rank[0])
            baseline = ranked[:, place : place + 1]
        else:
            baseline = xp.take_along_axis(ranked, block.lift(np.maximum(rank, 0)), axis=1)
            baseline = xp.where(block.lift(block.scorable > 0), baseline, block.zero)
        return block.over(block.hide(block.rewards - baseline), block.std(self.ddof), self.eps)


@remedy("krpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Krpo(Estimator):
    """Kalman baseline: a scalar filter runs over the group's rewards in their order.

    ``A_i = (r_i - x_i) / (sqrt(P_i) + eps)``, x and P the filter's mean and variance right after
    it has seen r_i: ``P⁻ = P + Q, K = P⁻ / (P⁻ + R), x += K (r - x), P = (1 - K) P⁻``, from x = 0.

    Ties: an all-wrong group (reward 0) gets exactly 0, an all-correct one small positive values
    that fall along the group (0.0995 first, about 0.035 at the eighth).

    Defaults: Q 1e-5, R 1e-2, P 1, eps 1e-8 as in the authors' code.

    Cost: G small steps, one after the other.

    Plugs in: replaces the trainer's advantages. It depends on the order of the samples in a group.

    Our reading: an unscorable sample is passed over.

    Source: arXiv 2505.07527.
    """

    signals_ties = True
    ordered = True

    process_noise: float = 1e-5
    observation_noise: float = 1e-2
    initial_variance: float = 1.0
    eps: float = 1e-8

    def check(self) -> None:
        options.number("process_noise", self.process_noise, 0)
        options.number("observation_noise", self.observation_noise, 0, above=True)
        options.number("initial_variance", self.initial_variance, 0, above=True)
        options.number("eps", self.eps, 0)

    def compute(self, block: Dense, batch: Any) -> Any:
        xp, mask = block.xp, block.mask
        state = block.zero + block.rewards[:, :1] * 0.0
        variance = block.zero + self.initial_variance
        columns = []
        for j in range(block.rewards.shape[1]):
            predicted = variance + self.process_noise
            gain = predicted / (predicted + self.observation_noise)
            ahead = state + gain * (block.rewards[:, j : j + 1] - state)
            after = (1.0 - gain) * predicted
            if mask is None:
                state, variance = ahead, after
            else:
                seen = mask[:, j : j + 1]
                state, variance = xp.where(seen, ahead, state), xp.where(seen, after, variance)
            miss = block.rewards[:, j : j + 1] - state
            columns.append(miss / (xp.sqrt(variance) + self.eps))
        return xp.concat(columns, axis=1)


@remedy("sign", "advantage")
@dataclass(kw_only=True, eq=False)
class Sign(LevelEstimator):
    """Fixed sign: right answers get +1 and wrong ones -1, whatever the group says.

    ``A_i = 2 r_i - 1`` on the scale where wrong is 0 and right is 1.

    Ties: the same as everywhere: +1 or -1 for every sample.

    Defaults: none to choose.

    Cost: none; groups are not even needed.

    Plugs in: replaces the trainer's advantages.

    Our reading: r is the column `correct` where it is known (`success`); else other reward levels
    are mapped to [0, 1] by `bounds`.

    Source: arXiv 2605.07689.
    """

    signals_ties = True

    def compute(self, block: Dense, batch: Batch) -> Any:
        return block.hide(2.0 * self.successes(block) - 1.0)

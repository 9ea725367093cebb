"""AVSPO: virtual samples for tied groups, when many groups are tied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.remedies import options, virtual
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.registry import remedy
from buttress.remedies.success import RIGHT, WRONG, Success, check_success, verdicts
from buttress.remedies.view import View

Strategy = Literal["stratified", "uniform", "fixed", "exponential"]
Side = Literal["both", "wrong", "correct"]

# Means of the same rewards in another order differ by rounding; that is no change of the reward.
SAME_MEAN = 1e-12


def virtual_count(size: NDArray[np.int64], acr: float, alpha: float) -> NDArray[np.int64]:
    """Return how many virtual samples a group of this size gets.

    ``K = max(1, min(G, ⌈G · ACR^alpha⌉))``; rounding errors never push K up by one.

    Source: equation 8 of arXiv 2605.21125.

    Examples
    --------
    >>> [int(virtual_count(np.array([8]), tied / 8, 0.5)[0]) for tied in range(1, 9)]
    [3, 4, 5, 6, 7, 7, 8, 8]
    """
    wanted = np.ceil(size * acr**alpha * (1 - 1e-12))
    return np.clip(wanted, 1, np.maximum(size, 1)).astype(np.int64)


@remedy("avspo", "advantage")
@dataclass(kw_only=True, eq=False)
class Avspo(Estimator):
    """Adaptive virtual samples: tied groups get a signal when the collapse rate passes a threshold.

    ``A_i = (r_i - mean') / (std' + eps)``, mean' and std' over the G real and K virtual rewards of
    a tied group, ``K = max(1, min(G, ⌈G · ACR^alpha⌉))``, virtual rewards
    ``r (1 - k/(K+1))`` where the group's reward r is above 0, else ``anchor (K-k+1)/K``.
    A step triggers when ``ACR > threshold``, strictly. Mixed groups are GRPO with the same eps and
    ddof. After the step ``threshold += rate · sign(ΔJ) · (ACR - threshold)``, clamped to the
    bounds, ΔJ the change of the batch's mean reward (none on the first step).

    Ties: every sample of a tied group gets one and the same value, negative where all are wrong,
    positive where all are correct, at most ``sqrt(K/G)`` in size; 0 when the step does not trigger.

    Defaults: alpha 0.5, anchor 0.1, threshold_init 0.5, threshold_rate 0.01, ddof 0 (population)
    are the paper's; the bounds [0.1, 0.9] are those of its first version; eps is not printed.

    Cost: no rollouts; one pass over the rewards.

    Plugs in: replaces the trainer's advantages; needs the whole step at once (or merged `Batch`
    statistics), since the trigger is a batch rate.

    Our reading: K takes the group's own number of scorable samples. Rewards are shifted by
    min(0, lowest reward seen so far), so that for rewards of 0 and more it is exactly equation 9
    and -1 for a wrong answer counts as 0. A tied group between wrong and correct counts as correct.
    A tied group whose column `correct` is known is wrong where that is 0 and correct where it is 1,
    whatever its reward (`success`): a constant bonus for the format does not turn a wrong group
    into a correct one. Its anchor then lies above (below, for a correct one without a reward) the
    group's own reward; with `success` "reward", and where `correct` is unknown, the reward decides
    as equation 9 says. The other strategies (ablations: draws from U[0, r], r/2, r·e^(-k/2)) take
    the anchor for r where r is 0. An undefined ACR leaves the threshold alone. Merging ranks
    averages the thresholds, weighted by steps.

    Source: equations 8 to 10 of arXiv 2605.21125.
    """

    signals_ties = True
    batchwide = True

    alpha: float = 0.5
    anchor: float = 0.1
    threshold: float | Literal["adaptive", "always"] = "adaptive"
    threshold_init: float = 0.5
    threshold_rate: float = 0.01
    threshold_bounds: tuple[float, float] = (0.1, 0.9)
    strategy: Strategy = "stratified"
    only: Side = "both"
    success: Success = "correct"
    eps: float = 1e-6
    ddof: int = 0
    seed: int = field(default=0)

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.number("alpha", self.alpha, 0, above=True)
        options.number("anchor", self.anchor, 0, above=True)
        options.number("threshold_rate", self.threshold_rate, 0, 1)
        options.choice("strategy", self.strategy, ("stratified", "uniform", "fixed", "exponential"))
        options.choice("only", self.only, ("both", "wrong", "correct"))
        check_success(self.success)
        options.whole("seed", self.seed, 0)
        self.threshold_bounds = options.bounds("threshold_bounds", self.threshold_bounds, 0, 1)
        options.number("threshold_init", self.threshold_init, *self.threshold_bounds)
        if isinstance(self.threshold, str):
            if self.threshold not in ("adaptive", "always"):
                raise UsageError(
                    "threshold must be 'adaptive', 'always' or a number in [0, 1]; "
                    f"got {self.threshold!r}"
                )
        else:
            options.number("threshold", self.threshold, 0, 1)
        self._adaptive = float(self.threshold_init)
        self._steps = 0
        self._mean: float | None = None
        self._lowest = inf
        self._random = np.random.default_rng(self.seed)
        self._plan: dict[str, Any] = {}

    def prepare(self, batch: Batch) -> None:
        self._lowest = min(self._lowest, batch.low)
        threshold = self._threshold
        self._plan = {"threshold": threshold, "triggered": batch.acr > threshold, "K": 0}
        self._augmented = 0

    def compute(self, block: Dense, batch: Batch) -> Any:
        chosen = self._chosen(block)
        if not chosen.any():
            return normalised(block, self.eps, self.ddof)
        drawn = self._virtual(block, batch, chosen)
        return virtual.normalised_with(block, drawn, self.eps, self.ddof)

    def silent(self, block: Dense) -> NDArray[np.bool_]:
        return block.silent & ~self._chosen(block) if self._plan["triggered"] else block.silent

    def learn(self, view: View, batch: Batch) -> dict[str, Any]:
        mean = batch.reward.known_mean
        if isfinite(mean):
            if self._mean is not None and isfinite(batch.acr):
                self._adapt(mean - self._mean, mean, batch.acr)
            self._mean = mean
        self._steps += 1
        return self._plan | {"augmented": self._augmented, "next_threshold": self._threshold}

    @property
    def _threshold(self) -> float:
        if self.threshold == "adaptive":
            return self._adaptive
        return 0.0 if self.threshold == "always" else float(self.threshold)

    def _adapt(self, change: float, mean: float, acr: float) -> None:
        if abs(change) <= SAME_MEAN * max(abs(mean), 1.0):
            return
        step = self.threshold_rate * np.sign(change) * (acr - self._adaptive)
        low, high = self.threshold_bounds
        self._adaptive = float(min(max(self._adaptive + step, low), high))

    def _chosen(self, block: Dense) -> NDArray[np.bool_]:
        """Return which groups are augmented."""
        if not self._plan["triggered"]:
            return np.zeros(len(block), dtype=bool)
        if self.only == "both":
            return block.tied
        return block.tied & ((self._top(block)[0] > 0) == (self.only == "correct"))

    def _top(self, block: Dense) -> tuple[NDArray[np.float64], Any]:
        """Return the reward of each group as equation 9 sees it, and where it counts from.

        Exactly 0 where the group is all wrong.
        """
        base = min(0.0, self._lowest)
        top = np.where(block.tied, block.high - base, 0.0)
        top = np.where(top > self.tolerance.atol, top, 0.0)
        verdict = verdicts(block.groups, self.tolerance, self.success)
        if verdict is None:
            return top, base
        verdict = verdict[block.index]
        wrong = block.tied & (verdict == WRONG)
        right = block.tied & (verdict == RIGHT) & (top == 0)
        top = np.where(right, self.anchor, np.where(wrong, 0.0, top))
        return top, np.where(wrong | right, block.high - top, base)

    def _virtual(self, block: Dense, batch: Batch, chosen: NDArray[np.bool_]) -> virtual.Virtual:
        k = np.where(chosen, virtual_count(block.scorable, batch.acr, self.alpha), 0)
        top, base = self._top(block)
        drawn = self._draw(top, k)
        self._plan["K"] = max(self._plan["K"], int(k.max()))
        self._augmented += int(chosen.sum())
        return drawn._replace(mean=drawn.mean + base)

    def _draw(self, top: NDArray[np.float64], k: NDArray[np.int64]) -> virtual.Virtual:
        if self.strategy == "stratified":
            step = np.where(top > 0, top / (k + 1), self.anchor / np.maximum(k, 1))
            return virtual.ladder(step, k)
        if self.strategy == "uniform":
            values = virtual.uniform(top, self.anchor, k, self._random)
        else:
            values = getattr(virtual, self.strategy)(top, self.anchor, k)
        return virtual.Virtual.of(values, k)

    def _state(self) -> dict[str, Any]:
        return {
            "threshold": self._adaptive,
            "steps": self._steps,
            "mean": self._mean,
            "lowest": self._lowest if isfinite(self._lowest) else None,
            "random": self._random.bit_generator.state,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._adaptive, self._steps = float(state["threshold"]), int(state["steps"])
        self._mean = state["mean"]
        self._lowest = inf if state["lowest"] is None else float(state["lowest"])
        self._random.bit_generator.state = state["random"]

    def _absorb(self, other: Self) -> None:
        steps = self._steps + other._steps
        share = other._steps / max(steps, 1)
        self._adaptive += (other._adaptive - self._adaptive) * share
        if self._mean is None or other._mean is None:
            self._mean = other._mean if self._mean is None else self._mean
        else:
            self._mean += (other._mean - self._mean) * share
        self._lowest = min(self._lowest, other._lowest)
        self._steps = steps

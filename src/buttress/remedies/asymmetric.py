"""Estimators that treat hard and easy prompts, or up and down, differently: A-GRAE, HA-DW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.group_norm import check_divisor, normalised
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("a_grae", "advantage")
@dataclass(kw_only=True, eq=False)
class AGrae(LevelEstimator):
    """Asymmetric group-relative advantage: the batch's success decides between hard and easy.

    ``A'_i = w/2 · A_i / sqrt(p) + (1 - w)/2 · A_i / sqrt(1 - p)``, A the GRPO advantage, p the
    success rate of the group and w its mean over the batch; positive A' are then multiplied by
    ``min(1, w / alpha)``.

    Ties: exactly 0.

    Defaults: alpha 1 is the authors' for mathematics (0.5 for geometry and medicine). eps 1e-6 and
    ddof 1 as verl's grpo, on which the code is built.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages.

    Our reading: the released code divides by ``1 - sqrt(p)``; this is the paper's ``sqrt(1 - p)``.
    p is held between 1/(2G) and 1 - 1/(2G), which changes nothing for 0/1 rewards; it is the mean
    of `correct` where that is known (`success`).

    Source: arXiv 2602.05548.
    """

    alpha: float = 1.0
    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)
        options.number("alpha", self.alpha, 0, above=True)

    def collect(self, view: View) -> Mapping[str, Moments]:
        return self.rate_moments(view)

    def compute(self, block: Dense, batch: Batch) -> Any:
        xp = block.xp
        w = min(max(self.rates(batch)[0], 0.0), 1.0)
        edge = block.lift(0.5 / np.maximum(block.scorable, 1))
        p = self.success_rate(block)
        p = xp.where(p < edge, edge, xp.where(p > 1.0 - edge, 1.0 - edge, p))
        share = 0.5 * w / xp.sqrt(p) + 0.5 * (1.0 - w) / xp.sqrt(1.0 - p)
        advantages = share * normalised(block, self.eps, self.ddof)
        return xp.where(advantages > 0, advantages * min(1.0, w / self.alpha), advantages)


@remedy("ha_dw", "advantage")
@dataclass(kw_only=True, eq=False)
class HaDw(LevelEstimator):
    """History-aware difficulty weight: successes on hard and failures on easy prompts count more.

    ``A'_i = scale · exp(-sign(A_i) · (p - C)) · A_i``, A the GRPO advantage, p the success rate of
    the group and C what the batches so far let one expect.

    Ties: exactly 0.

    Defaults: scale 1.3 is the paper's (the released code has 1.5). belief "filter" is the paper's
    ``C_t = (1 - e_t) C_{t-1} + e_t ȳ_t``, ``e_t = eta · std`` of the last `window` beliefs, with
    C_{t-1} in the weight; eta 0.1 and window 50 come from a third party's notes. belief "window" is
    the released code: C is the mean of the last `window` batch means, this one included. eps 1e-6
    and ddof 1 as verl's grpo.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages; keeps the last `window` batches as state.

    Our reading: C starts as the first batch's mean; while there is one belief only, its deviation
    counts as 1. Merging ranks averages their beliefs. p and C are means of `correct` where that is
    known of the batch (`success`); beliefs about the one say nothing of the other, so that a change
    between the two starts C anew.

    Source: arXiv 2601.08521.
    """

    scale: float = 1.3
    belief: Literal["filter", "window"] = "filter"
    eta: float = 0.1
    window: int = 50
    eps: float = 1e-6
    ddof: int = 1

    def check(self) -> None:
        super().check()
        check_divisor(self.eps, self.ddof)
        options.number("scale", self.scale, 0, above=True)
        options.number("eta", self.eta, 0, 1)
        options.whole("window", self.window, 1)
        options.choice("belief", self.belief, ("filter", "window"))
        self._past: list[float] = []
        self._judged = False  # whether these are means of `correct`

    def collect(self, view: View) -> Mapping[str, Moments]:
        correct = view.groups.column("correct") if self.success == "correct" else None
        if correct is None:
            return {}
        known = np.isfinite(correct) & np.isfinite(view.groups.rewards)
        return {"success": Moments.of(correct[known].clip(0, 1))}

    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        success = batch.extra.get("success", Moments(0, 0.0, 0.0))
        seen = success if success.count else batch.reward
        if seen.count and self._judged != bool(success.count):
            self._past, self._judged = [], bool(success.count)
        self._now = [seen.mean] if seen.count else []
        if self.belief == "window":
            past = (self._past + self._now)[-self.window :]
        else:
            past = self._past[-1:] or self._now
        self._expected = sum(past) / len(past) if past else 0.0

    def compute(self, block: Dense, batch: Batch) -> Any:
        low, high = (0.0, 1.0) if self._judged else self.levels
        expected = min(max((self._expected - low) / (high - low), 0.0), 1.0)
        advantages = normalised(block, self.eps, self.ddof)
        apart = self.success_rate(block) - expected
        return self.scale * block.xp.exp(-block.xp.sign(advantages) * apart) * advantages

    def learn(self, view: View, batch: Batch) -> dict[str, Any]:
        believed = self._expected
        if self._now and self._past and self.belief == "filter":
            spread = float(np.std(self._past)) if len(self._past) > 1 else 1.0
            rate = min(self.eta * spread, 1.0)
            self._now = [(1 - rate) * self._past[-1] + rate * self._now[0]]
        self._past = (self._past + self._now)[-self.window :]
        return {"belief": believed}

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"past": list(self._past), "judged": self._judged}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._past, self._judged = list(state["past"]), bool(state.get("judged"))

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        if self._judged != other._judged:
            # only one of them can go on: the one that has seen more
            more = max(self, other, key=lambda one: len(one._past))
            self._past, self._judged = list(more._past), more._judged
            return
        shared = min(len(self._past), len(other._past))
        longer = max(self._past, other._past, key=len)
        recent = [
            (mine + theirs) / 2
            for mine, theirs in zip(
                self._past[len(self._past) - shared :],
                other._past[len(other._past) - shared :],
                strict=True,
            )
        ]
        self._past = longer[: len(longer) - shared] + recent

"""Estimators that leave groups out: filter-drop and MaxNorm-AC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor, leave_one_out, normalised
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


@remedy("filter_drop", "advantage")
@dataclass(kw_only=True, eq=False)
class FilterDrop(Estimator):
    """Drop tied groups without resampling; the others are GRPO.

    ``A_i = (n / n_kept) · (r_i - mean(r)) / (std(r) + eps)``, n all scorable samples of the step
    and n_kept those in mixed groups, so that a mean over all samples is the mean over the kept.

    Ties: exactly 0, and out of the denominator too; with denominator "all" they stay in it, which
    makes this plain GRPO.

    Defaults: denominator "kept"; eps 1e-4 and ddof 1 as TRL's GRPO.

    Cost: no extra rollouts; the batch that is learnt from shrinks by the ACR.

    Plugs in: replaces the trainer's advantages; the rescaling is exact where the trainer's loss is
    a mean over responses, and right on average where it is a mean over tokens.

    Our reading: the rescaling. The paper runs this as a baseline and does not name the denominator.

    Source: baseline "Filter-Drop" of arXiv 2605.21125; the filter is that of arXiv 2503.14476.
    """

    batchwide = True

    denominator: Literal["kept", "all"] = "kept"
    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.choice("denominator", self.denominator, ("kept", "all"))

    def collect(self, view: View) -> Mapping[str, Moments]:
        kept = int(view.summary.scorable[view.summary.mixed].sum())
        return {"kept": Moments(kept, 0.0, 0.0)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        advantages = normalised(block, self.eps, self.ddof)
        kept = batch.extra["kept"].count
        if self.denominator == "all" or not kept:
            return advantages
        return advantages * (batch.reward.count / kept)


@remedy("maxnorm_ac", "advantage")
@dataclass(kw_only=True, eq=False)
class MaxNormAc(Estimator):
    """Maximum normalisation with a reward resolution: bounded advantages, noise left out.

    ``A_i = u_i / max(max_j |u_j|, floor)``, with u the centred reward (mean or leave-one-out) after
    differences below `resolution` were taken for equal. So ``|A_i| <= 1``, and order, sign and
    ratios of the centred rewards are kept.

    Ties: exactly 0, and so is a group whose rewards all lie within one `resolution` bin.

    Defaults: resolution 1e-2 is the paper's for a verifier in [0, 1].

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages. The paper also skips the KL term of the left-out
    groups and keeps the KL term free of the scale; both belong to the loss.

    Our reading: bins start at the group's lowest reward and every reward is moved to the lower edge
    of its bin; floor is the resolution, since its default is not printed.

    Source: arXiv 2609.19164.
    """

    resolution: float = 1e-2
    floor: float = 1e-2
    baseline: Literal["mean", "leave_one_out"] = "mean"

    def check(self) -> None:
        options.number("resolution", self.resolution, 0)
        options.number("floor", self.floor, 0, above=True)
        options.choice("baseline", self.baseline, ("mean", "leave_one_out"))

    def compute(self, block: Dense, batch: Any) -> Any:
        xp = block.xp
        u = self._binned(block).centred
        if self.baseline == "leave_one_out":
            u = u * leave_one_out(block)
        largest = xp.max(xp.abs(u), axis=1, keepdims=True)
        largest = xp.where(largest > self.floor, largest, block.one * self.floor)
        with np.errstate(invalid="ignore"):
            one_bin = block.high - block.low < self.resolution * (1 - 1e-9)
        return block.choose(one_bin, block.zero, u / largest)

    def _binned(self, block: Dense) -> Dense:
        if not self.resolution:
            return block
        low = block.lift(np.where(block.scorable > 0, block.low, 0.0))
        # 0.29 / 0.01 is 28.999...: a value on an edge belongs to the bin above
        steps = block.xp.floor((block.rewards - low) / self.resolution + 1e-9)
        return block.with_cells(block.hide(low + steps * self.resolution))

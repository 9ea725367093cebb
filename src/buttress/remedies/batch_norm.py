"""Estimators that divide by a deviation of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from buttress.groups.arrays import to_numpy
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import TINY, Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.group_norm import check_divisor
from buttress.remedies.moments import Moments
from buttress.remedies.registry import remedy
from buttress.remedies.view import View


def moments_of(view: View, cells: Callable[[Dense], Any], weight: str | None = None) -> Moments:
    """Return the moments over the scorable samples, each counted `weight` (a column) times.

    NaN cells are left out, and samples whose weight is unknown.
    """
    total = Moments(0, 0.0, 0.0)
    for block in view.blocks:
        values = to_numpy(cells(block))
        if block.mask is None and weight is None and not np.isnan(values).any():
            total += Moments.of(values.reshape(-1))
            continue
        shown = True if block.mask is None else np.asarray(to_numpy(block.mask))
        shown = shown & ~np.isnan(values)
        weights = None if weight is None else block.column(weight)
        if weights is None:
            total += Moments.of(values[shown])
            continue
        weights = to_numpy(weights)
        known = shown & (weights > 0)
        total += Moments.of(values[known], weights[known])
    return total


def group_moments(view: View, per_group: Callable[[Dense], Any], least: int = 1) -> Moments:
    """Return the moments over groups with at least this many scorable samples."""
    total = Moments(0, 0.0, 0.0)
    for block in view.blocks:
        values, counted = to_numpy(per_group(block))[:, 0], block.scorable >= least
        total += Moments.of(values if counted.all() else values[counted])
    return total


@remedy("global_norm", "advantage")
@dataclass(kw_only=True, eq=False)
class GlobalNorm(Estimator):
    """Globally normalised advantage: group mean as baseline, one divisor for the whole batch.

    ``A_i = (r_i - mean(r)) / (s + eps)``, with ``s = sqrt(mean over groups of std²)``
    (scale "within") or s the deviation of all rewards of the batch (scale "batch").

    Ties: exactly 0; but they enter the divisor: with "within" they make it smaller.

    Defaults: scale "within" is the control of the paper; "batch" is TRL's
    ``scale_rewards="batch"``, from where eps 1e-4 and ddof 1 are taken.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages.

    Our reading: "within" follows the wording of the abstract ("globally normalised"); groups of
    fewer than two scorable samples do not count.

    Source: arXiv 2601.23135 (within); batch scaling: arXiv 2508.08221 and TRL.
    """

    batchwide = True

    scale: Literal["within", "batch"] = "within"
    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.choice("scale", self.scale, ("within", "batch"))

    def collect(self, view: View) -> Mapping[str, Moments]:
        if self.scale == "batch":
            return {}
        return {"variance": group_moments(view, lambda block: block.std(self.ddof) ** 2, 2)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        if self.scale == "batch":
            divisor = batch.reward.std(self.ddof)
        else:
            divisor = max(batch.extra["variance"].mean, 0.0) ** 0.5
        return block.centred / max(divisor + self.eps, TINY)


@dataclass(kw_only=True, eq=False)
class _Whitened(Estimator):
    """Whitening over the batch: ``(x - mean) / sqrt(var + eps)``."""

    batchwide = True

    per: Literal["sample", "token"] = "sample"
    eps: float = 1e-8
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)
        options.choice("per", self.per, ("sample", "token"))

    @property
    def wanted(self) -> tuple[str, ...]:
        return ("length",) if self.per == "token" else ()

    def collect(self, view: View) -> Mapping[str, Moments]:
        weight = "length" if self.per == "token" else None
        return {"raw": moments_of(view, self._raw, weight)}

    def compute(self, block: Dense, batch: Batch) -> Any:
        raw = batch.extra["raw"]
        if raw.std(0) <= self.tolerance.atol:  # nothing but rounding to blow up
            return block.rewards * 0.0
        divisor = (raw.std(self.ddof) ** 2 + self.eps) ** 0.5
        return (self._raw(block) - raw.mean) / divisor

    def _raw(self, block: Dense) -> Any:
        raise NotImplementedError


@remedy("reinforce_pp", "advantage")
@dataclass(kw_only=True, eq=False)
class ReinforcePp(_Whitened):
    """REINFORCE++: the batch mean is the baseline and the batch deviation the divisor.

    ``A_i = (r_i - mean_batch) / sqrt(var_batch + eps)``

    Ties: a tied group gets the distance of its reward from the batch mean; 0 only when the whole
    batch is tied.

    Defaults: eps 1e-8 (added to the variance) and ddof 1 as verl 0.9.1 whitens; per "sample".
    verl counts every sample once per token: that is per "token", which needs the column `length`.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages.

    Our reading: the sequence form, with the outcome reward at the last token and no discount (gamma
    1), as both implementations run it by default; a KL penalty in the reward is the trainer's.

    Source: Hu et al., arXiv 2501.03262.
    """

    signals_ties = True

    def _raw(self, block: Dense) -> Any:
        return block.rewards


@remedy("reinforce_pp_baseline", "advantage")
@dataclass(kw_only=True, eq=False)
class ReinforcePpBaseline(_Whitened):
    """REINFORCE++ with baseline: the group mean is subtracted, the batch deviation divides.

    ``A_i = (c_i - mean_batch(c)) / sqrt(var_batch(c) + eps)``, with ``c_i = r_i - mean(r)``.

    Ties: exactly 0. Weighted by tokens, the batch mean of c is not 0, and verl then gives tied
    groups that constant; here they stay at 0.

    Defaults: as `reinforce_pp`.

    Cost: one pass over the rewards; needs the whole step at once.

    Plugs in: replaces the trainer's advantages.

    Source: Hu et al., arXiv 2501.03262.
    """

    def _raw(self, block: Dense) -> Any:
        return block.centred

"""Estimators that look at one group at a time: GRPO, Dr. GRPO, RLOO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buttress.remedies import options
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.registry import remedy


def check_divisor(eps: Any, ddof: Any) -> None:
    """Require a divisor that can be added up: ``eps >= 0`` and ``ddof`` 0 or 1."""
    options.number("eps", eps, 0)
    options.choice("ddof", ddof, (0, 1))


@remedy("grpo", "advantage")
@dataclass(kw_only=True, eq=False)
class Grpo(Estimator):
    """Group-normalised advantage: reward minus group mean over group standard deviation.

    ``A_i = (r_i - mean(r)) / (std(r) + eps)``

    Ties: exactly 0.

    Defaults: eps 1e-4 and ddof 1 as TRL 1.16 computes it; verl 0.9.1 takes eps 1e-6; the paper
    writes neither.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages.

    Source: Shao et al., arXiv 2402.03300.
    """

    eps: float = 1e-4
    ddof: int = 1

    def check(self) -> None:
        check_divisor(self.eps, self.ddof)

    def compute(self, block: Dense, batch: Any) -> Any:
        return normalised(block, self.eps, self.ddof)


def normalised(block: Dense, eps: float, ddof: int) -> Any:
    """Return ``(r - mean) / (std + eps)`` in cells; what tied groups hold is not defined."""
    return block.over(block.centred, block.std(ddof), eps)


@remedy("dr_grpo", "advantage")
@dataclass(kw_only=True, eq=False)
class DrGrpo(Estimator):
    """Centred advantage of Dr. GRPO: reward minus group mean, not divided.

    ``A_i = r_i - mean(r)``

    Ties: exactly 0.

    Defaults: none to choose; the loss of the paper also divides by a constant length instead of
    the response's own.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages (TRL: the same as ``scale_rewards="none"``).

    Source: Liu et al., arXiv 2503.20783.
    """

    def compute(self, block: Dense, batch: Any) -> Any:
        return block.centred


@remedy("rloo", "advantage")
@dataclass(kw_only=True, eq=False)
class Rloo(Estimator):
    """Leave-one-out advantage: reward minus the mean of the others in the group.

    ``A_i = r_i - mean(r_j, j ≠ i) = G / (G - 1) · (r_i - mean(r))``

    Ties: exactly 0.

    Defaults: none to choose.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages.

    Source: Ahmadian et al., arXiv 2402.14740; G counts the scorable samples.
    """

    def compute(self, block: Dense, batch: Any) -> Any:
        return block.centred * leave_one_out(block)


def leave_one_out(block: Dense) -> Any:
    """Return ``G / (G - 1)`` per group; 1 of fewer than two samples."""
    return block.count / block.free(1)

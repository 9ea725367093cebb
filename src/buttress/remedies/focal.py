"""F-GRPO: a focal weight over any other advantage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.levels import LevelEstimator
from buttress.remedies.moments import Moments
from buttress.remedies.registry import create, lookup, names, remedy
from buttress.remedies.view import View


@remedy("f_grpo", "advantage")
@dataclass(kw_only=True, eq=False)
class FGrpo(LevelEstimator):
    """Focal weight: prompts that are mostly solved count less, so rare right answers are not lost.

    ``A_i = (1 - p)^gamma · A_i(base)``, with p the success rate of the group.

    Ties: as the base does it; an all-correct group gets 0 in any case (its weight is 0).

    Defaults: gamma 0.5, the value that the paper chose for GRPO and DAPO on 4B and 7B models
    (1.0 for CISPO on the 7B model); base ``grpo``. F-DAPO and F-CISPO are the same advantage under
    those losses. eps and ddof are the base's own unless given.

    Cost: as the base.

    Plugs in: replaces the trainer's advantages.

    Our reading: rewards between the two levels count as their fraction; p is the mean of `correct`
    where that is known (`success`).

    Source: arXiv 2602.06717.
    """

    gamma: float = 0.5
    base: str = "grpo"
    eps: float | None = None
    ddof: int | None = None

    def check(self) -> None:
        super().check()
        options.number("gamma", self.gamma, 0)
        lookup(self.base)
        if self.base == "f_grpo" or self.base not in names("advantage"):
            raise UsageError(f"base must be another advantage estimator; got {self.base!r}")
        divisor = {"eps": self.eps, "ddof": self.ddof}
        given: dict[str, Any] = {name: one for name, one in divisor.items() if one is not None}
        if hasattr(lookup(self.base), "success"):
            given["success"] = self.success
        self._base = create(self.base, tolerance=self.tolerance, **given)

    def collect(self, view: View) -> Mapping[str, Moments]:
        return self._base.collect(view)

    def prepare(self, batch: Batch) -> None:
        super().prepare(batch)
        self._base.prepare(batch)

    def compute(self, block: Dense, batch: Batch) -> Any:
        failed = 1.0 - self.success_rate(block)
        some = failed > 0
        # the root of 0 has no gradient
        weight = block.xp.where(some, failed, block.one) ** self.gamma
        if self.gamma:
            weight = block.xp.where(some, weight, block.zero)
        return weight * self._base.compute(block, batch)

    def silent(self, block: Dense) -> NDArray[np.bool_]:
        return self._base.silent(block)

    @property
    def wanted(self) -> tuple[str, ...]:
        return self._base.wanted

    def learn(self, view: View, batch: Batch) -> dict[str, Any]:
        return self._base.learn(view, batch)

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"base": self._base.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._base.load_state_dict(state["base"])

    def _absorb(self, other: Self) -> None:
        super()._absorb(other)
        self._base.merge(other._base)

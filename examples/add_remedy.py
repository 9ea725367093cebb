"""A remedy of one's own: registered, then used by its name like any other."""

from dataclasses import dataclass
from typing import Any

import buttress as bt
from buttress.remedies import options
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.estimator import Estimator
from buttress.remedies.registry import remedy


@remedy("range_norm", "advantage")
@dataclass(kw_only=True, eq=False)
class RangeNorm(Estimator):
    """Range normalisation: reward minus group mean, divided by the group's range.

    ``A_i = scale · (r_i - mean) / (max - min)``

    Ties: a tied group gets exactly 0.

    Defaults: scale 1.

    Cost: one pass over the rewards.

    Plugs in: replaces the trainer's advantages.

    Source: an example.
    """

    scale: float = 1.0

    def check(self) -> None:
        """Refuse a bad scale when the remedy is built."""
        options.number("scale", self.scale, 0, above=True)

    def compute(self, block: Dense, batch: Batch) -> Any:
        """Return advantages in cells (group, sample)."""
        span = block.lift(block.high - block.low)
        cells = self.scale * block.centred / block.xp.where(span > 0, span, block.one)
        return block.choose(block.tied, block.zero, cells)


groups = bt.Groups.from_nested([[1, 0, 0], [5, 5]])
print(bt.estimator("range_norm")(groups))

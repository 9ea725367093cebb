"""GRPO-VPS: a segment is worth what it adds to the belief in the right answer.

The belief is the caller's to compute. C(z) is the probability that the policy, given the prompt and
the prefix z of its response, would write the reference answer next:

1. cut each response: ``segments_by_entropy(entropy, mask)``, ``segment_ends(segments)``;
2. for each end t, feed the prompt, the tokens up to t, a phrase that asks for the answer (such as
   "The answer is"), and the reference answer, in one forward pass over all ends of a batch;
3. multiply the probabilities of the answer's tokens (``exp`` of the sum of their log-probabilities)
   and put that under ``belief[sample, t]``; NaN everywhere else;
4. the same with an empty prefix is ``prior[sample]``.

The paper states neither the phrase nor whether the probability is a product over the answer's
tokens or normalised by their number; the product is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups.arrays import take, to_numpy
from buttress.remedies import options
from buttress.remedies.dense import Dense
from buttress.remedies.registry import remedy
from buttress.remedies.token_credit.cells import TokenCells
from buttress.remedies.token_credit.estimator import TokenEstimator
from buttress.remedies.token_credit.segments import last_of_segment, segments_by_entropy


@remedy("grpo_vps", "token")
@dataclass(kw_only=True, eq=False)
class GrpoVps(TokenEstimator):
    """Verifiable process supervision: outcome plus the gain of belief in the reference answer.

    ``A_it = r_i - mean(r) + alpha · (C_k - C_(k-1))`` for the tokens of segment k, C_k the
    probability of the reference answer after that segment and C_0 before the first token.

    Ties: the outcome part is exactly 0, the gain of belief stays.

    Defaults: alpha 1.2 and four uncertain tokens per segment are the paper's (0.8 to 1.4 flat).

    Cost: one forward pass of the reference answer per segment end.

    Plugs in: replaces the trainer's advantages; needs the token columns `belief` and `prior`, see
    this module for how to get them. Without token columns it is Dr. GRPO.

    Our reading: a belief stands at every segment end and nowhere else, so every known belief ends a
    segment. With the token column `entropy` the segments are cut here (`segments_by_entropy`), and
    beliefs inside them do not count. Tokens after the last end gain nothing. The percentile 80 is
    ours: the paper does not state it.

    Source: arXiv 2604.20659, equation 6.
    """

    needs = ("belief", "prior")
    takes = ("entropy",)

    alpha: float = 1.2
    percentile: float = 80.0
    per_segment: int = 4

    def check(self) -> None:
        options.number("alpha", self.alpha)
        options.number("percentile", self.percentile, 0, 100)
        options.whole("per_segment", self.per_segment, 1)

    def compute(self, block: Dense, batch: Any) -> Any:
        return block.choose(block.tied, block.zero, block.centred)

    def spread(self, cells: TokenCells) -> Any:
        xp, belief = cells.xp, cells["belief"]
        ends = ~np.isnan(to_numpy(belief))
        if "entropy" in cells.columns:
            ends = self._segment_ends(cells, ends)
        rows, width = ends.shape
        column = np.arange(width)
        end = np.minimum.accumulate(np.where(ends, column, width)[:, ::-1], axis=1)[:, ::-1]
        last = np.maximum.accumulate(np.where(ends, column, -1), axis=1)
        before = np.concatenate([np.full((rows, 1), -1), last[:, :-1]], axis=1)
        # without an end ahead, both ends of the segment are the last known belief
        end = np.where(end < width, end, before)
        table = xp.reshape(xp.concat([cells["prior"][:, None], belief], axis=1), (-1,))
        start = np.arange(rows)[:, None] * (width + 1) + 1
        after, at_start = (
            xp.reshape(take(table, (start + place).reshape(-1)), (rows, width))
            for place in (end, before)
        )
        return cells.advantage + self.alpha * (after - at_start)

    def _segment_ends(self, cells: TokenCells, known: Any) -> Any:
        segments = segments_by_entropy(
            cells["entropy"], cells.mask, self.percentile, self.per_segment
        )
        ends = last_of_segment(to_numpy(segments))
        unknown = int((ends & ~known).sum())
        if unknown:
            raise UsageError(
                f"belief is unknown at {unknown} of {int(ends.sum())} segment ends; ask for it "
                "where segment_ends(segments_by_entropy(...)) says, or leave out entropy"
            )
        return ends

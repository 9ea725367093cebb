"""Which token earned it? Estimators that return one advantage per token.

::

    est = buttress.estimator("ep_grpo")
    est(groups, TokenColumns(mask, entropy=H, logp=lp, ref_logp=ref))   # (sample, token)
    est(groups)                                                         # (sample,)

The rows of the columns are the samples in the order of the groups (`TokenColumns.select` with
``groups.order`` brings rows of the input there). Without columns an estimator gives what it would
multiply or add to: its advantage per sample, as its page says.
"""

# each of these enters its remedies into the catalogue
from buttress.remedies.token_credit import ep_grpo, grpo_vps, rl_zvp  # noqa: F401
from buttress.remedies.token_credit.cells import TokenCells
from buttress.remedies.token_credit.columns import TokenColumns
from buttress.remedies.token_credit.estimator import TokenEstimator
from buttress.remedies.token_credit.segments import segment_ends, segments_by_entropy

__all__ = [
    "TokenCells",
    "TokenColumns",
    "TokenEstimator",
    "segment_ends",
    "segments_by_entropy",
]

"""Token advantages straight from an estimator and from what plain logits say."""

from __future__ import annotations

from typing import Any

import numpy as np

from buttress.groups import Groups
from buttress.remedies import TokenColumns
from buttress.remedies.token_credit import TokenEstimator


def joined_columns(parts: Any, name: str, ndim: int = 2) -> np.ndarray:
    """Return a column of all ranks, padded with 0 to the widest."""
    rows = [row for part in parts for row in part[name]]
    if ndim == 1:
        return np.array(rows)
    width = max(map(len, rows))
    return np.array([row + [0.0] * (width - len(row)) for row in rows], dtype=float)


def direct_advantages(est: Any, rewards: np.ndarray, parts: Any) -> np.ndarray:
    """Return what `est` gives the rows of all ranks; `parts` is what `direct` saw on each."""
    names = [name for name in ("entropy", "logp", "ref_logp") if name in parts[0]]
    columns = {name: joined_columns(parts, name) for name in names}
    mask = joined_columns(parts, "mask") > 0
    mean = (columns["entropy"] * mask).sum(1) / mask.sum(1)
    largest = np.where(mask, columns["entropy"], -np.inf).max(1)
    groups = Groups.from_dense(
        rewards,
        entropy=mean.reshape(rewards.shape),
        entropy_max=largest.reshape(rewards.shape),
    )
    if isinstance(est, TokenEstimator):
        return est(groups, TokenColumns(mask, **columns))
    return est(groups)

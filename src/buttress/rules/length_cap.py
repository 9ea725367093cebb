"""Which tied groups the length cap accounts for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Run
from buttress.measures import KINDS, GroupSummary
from buttress.rules import thresholds as at

CLIPPED = "completions/clipped_ratio"
_RIGHT = KINDS.index("all_correct")


@dataclass(frozen=True, eq=False, slots=True)
class LengthCap:
    """What is known of truncation.

    Attributes
    ----------
    seen_in
        ``truncated`` (a column of the rollouts) or the name of the scalar.
    share
        Truncated rollouts over rollouts of which it is known.
    success
        How often truncated rollouts still succeed; NaN where the scalar is all there is.
    explained
        Tied groups, shape ``(group,)``, that are not all correct and (nearly) all truncated.
    """

    seen_in: str
    share: float
    success: float
    explained: NDArray[np.bool_]

    def share_of(self, mask: NDArray[np.bool_]) -> float:
        """Return which share of the groups in a mask the cap explains; 0 for an empty mask."""
        chosen = int(mask.sum())
        return float((self.explained & mask).sum()) / chosen if chosen else 0.0


def read_length_cap(
    run: Run, summary: GroupSummary, kinds: NDArray[np.int64], success: NDArray[np.float64]
) -> LengthCap | None:
    """Return what is known of truncation, None where nothing is.

    Parameters
    ----------
    kinds
        Index into `KINDS` per group, -1 where not tied.
    success
        How far each rollout succeeded, in [0, 1], shape ``(sample,)``.
    """
    groups = run.groups
    failed = summary.tied & (kinds != _RIGHT)
    truncated = groups.column("truncated")
    known = None if truncated is None else np.isfinite(truncated)
    if truncated is None or known is None or not known.any():
        return _by_scalar(run, failed, summary.mixed)
    cut = known & (truncated > 0)
    share = _group_mean(groups, cut, known)
    tried = success[cut & np.isfinite(success)]
    rate = float(tried.mean()) if len(tried) else 0.0
    dead = rate <= at.TRUNCATED_SUCCESS
    explained = failed & (share >= at.TRUNCATED_GROUP) & dead
    return LengthCap("truncated", float(cut.sum() / known.sum()), rate, explained)


def _group_mean(
    groups: Groups, hits: NDArray[np.bool_], known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the share of hits among the known samples of each group, NaN without any."""
    filled = groups.sizes > 0
    share = np.full(len(groups), np.nan)
    starts = groups.offsets[:-1][filled]
    if len(starts):
        total = np.add.reduceat(known.astype(np.int64), starts)
        with np.errstate(invalid="ignore"):
            share[filled] = np.add.reduceat(hits.astype(np.int64), starts) / total
    return share


def _by_scalar(run: Run, failed: NDArray[np.bool_], mixed: NDArray[np.bool_]) -> LengthCap | None:
    clipped = run.scalar(CLIPPED)
    if clipped is None:
        return None
    explained = np.zeros(len(failed), dtype=bool)
    if len(failed):
        # a log line speaks for the steps since the line before it
        line = np.searchsorted(clipped.step, run.groups.step)
        cut = clipped.value[np.minimum(line, len(clipped.step) - 1)] >= at.CLIPPED_STEP
        # where truncated groups are mixed as often as tied, the cap does not decide the reward
        if (cut & mixed).sum() <= (cut & failed).sum():
            explained = failed & cut
    return LengthCap(CLIPPED, float(clipped.value.mean()), float(np.nan), explained)

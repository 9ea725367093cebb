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
        ``truncated`` (a column of the rollouts), the name of the scalar, or ``length`` where the
        cap was read off the lengths.
    share
        Truncated rollouts over rollouts of which it is known.
    success
        How often truncated rollouts still succeed (by the scalar: all rollouts of steps in which
        nearly all are truncated); NaN where unknown.
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
    failed = summary.tied & (kinds != _RIGHT)
    truncated = run.groups.column("truncated")
    if truncated is not None and np.isfinite(truncated).any():
        known = np.isfinite(truncated)
        return _by_rollout(run.groups, "truncated", failed, known & (truncated > 0), known, success)
    if run.scalar(CLIPPED) is not None:
        return _by_scalar(run, failed, success)
    at_cap, known = _lengths_at_cap(run.groups)
    if not at_cap.any():
        return None
    return _by_rollout(run.groups, "length", failed, at_cap, known, success)


def _by_rollout(
    groups: Groups,
    seen_in: str,
    failed: NDArray[np.bool_],
    cut: NDArray[np.bool_],
    known: NDArray[np.bool_],
    success: NDArray[np.float64],
) -> LengthCap:
    share = _group_mean(groups, cut, known)
    rate, complete = _mean(success[cut]), _mean(success[known & ~cut])
    # where answers of fixed length all end at the cap, truncated ones succeed like others
    most = at.TRUNCATED_ALONE if np.isnan(complete) else complete / 2
    dead = not rate > min(at.TRUNCATED_SUCCESS, most)
    explained = failed & (share >= at.TRUNCATED_GROUP) & dead
    return LengthCap(seen_in, float(cut.sum() / known.sum()), rate, explained)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float(np.nan)


def _lengths_at_cap(groups: Groups) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the rollouts whose lengths pile up at one round maximum, and those of known length.

    Our reading of a log that says nothing of truncation: lengths thin out towards a natural end
    and pile up at a cap, and caps are round.
    """
    length = groups.column("length")
    known = np.zeros(groups.n_samples, dtype=bool) if length is None else np.isfinite(length)
    if length is None or not known.any():
        return known, known
    cap = float(length[known].max())
    round_number = cap >= at.CAP_SMALLEST and (cap % 16 == 0 or cap % 100 == 0)
    at_cap = known & (length == cap)
    just_below = (known & (length < cap) & (length >= cap * (1 - at.CAP_NEIGHBOURS))).sum()
    piled = at_cap.sum() >= at.CAP_PILE * max(int(just_below), 1)
    return (at_cap if round_number and piled else np.zeros_like(known)), known


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


def _by_scalar(
    run: Run, failed: NDArray[np.bool_], success: NDArray[np.float64]
) -> LengthCap | None:
    clipped = run.scalar(CLIPPED)
    if clipped is None:
        return None
    explained = np.zeros(len(failed), dtype=bool)
    rate = float(np.nan)
    if len(failed):
        # a log line speaks for the steps since the line before it
        line = np.searchsorted(clipped.step, run.groups.step)
        ratio = clipped.value[np.minimum(line, len(clipped.step) - 1)]
        cut = ratio >= at.TRUNCATED_GROUP
        rate = _mean(success[cut[run.groups.group_of]])
        # the few complete ones may all have succeeded, the truncated ones not
        if cut.any() and not rate > 1 - float(ratio[cut].mean()) + at.TRUNCATED_ALONE:
            explained = failed & cut
    return LengthCap(CLIPPED, float(clipped.value.mean()), rate, explained)

"""Recorded groups under each remedy, without a GPU: what would its advantages have been?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import ratio
from buttress.measures.summary import GroupSummary
from buttress.remedies.estimator import Estimator
from buttress.remedies.registry import ESTIMATOR_KINDS, create, kind_of, lookup, names


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one remedy would have made of the recorded rewards; NaN where unknown.

    Attributes
    ----------
    acr_before, acr_after
        Share of tied groups, and of groups whose advantages are all exactly 0. The second falls by
        definition where a remedy acts on tied groups: it is not a gain by itself.
    effective_batch
        Share of the rollouts with an advantage other than 0.
    tied_share
        Share of the squared advantages that comes from tied groups.
    sign_changes
        Share of the rollouts of mixed groups whose advantage has another sign than GRPO's.
    phantom
        Share of the squared advantages in groups whose rollouts are all equally correct; NaN
        without a `correct` column.
    largest
        The largest absolute advantage.
    norm
        Root mean square of all advantages: a remedy that is twice as large learns as if at twice
        the learning rate, until the gradient is clipped.
    rollouts
        Rollouts that the method samples per rollout of a full batch: 1, or for dynamic sampling 1
        / (1 - ACR).
    seconds
        Time that its estimator took.
    missing
        Columns that it would use and that the log lacks; it was played without them.
    skipped
        Why it could not be replayed; the numbers are then NaN.
    """

    name: str
    acr_before: float = nan
    acr_after: float = nan
    effective_batch: float = nan
    tied_share: float = nan
    sign_changes: float = nan
    phantom: float = nan
    largest: float = nan
    norm: float = nan
    rollouts: float = 1.0
    seconds: float = 0.0
    missing: tuple[str, ...] = ()
    skipped: str = ""


def replay(
    groups: Groups,
    remedies: Iterable[str] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    tolerance: Tolerance = DEFAULT_TOLERANCE,
) -> list[Outcome]:
    """Run recorded groups through estimators, step by step in the order of the steps.

    Parameters
    ----------
    groups
        The recorded rollouts; stateful estimators see them in order, with their prompt identities.
    remedies
        Names from the catalogue; by default all of kind ``advantage`` or ``token``. Others, which
        act on samples or on the loss, are listed as skipped.
    options
        Options for every estimator that has them, e.g. ``{"eps": 1e-6}``.

    Examples
    --------
    >>> [outcome] = replay(Groups.from_nested([[1, 0], [0, 0]]), ["rloo"])
    >>> outcome.acr_before, outcome.acr_after, outcome.largest
    (0.5, 0.5, 1.0)
    """
    chosen = list(remedies) if remedies is not None else names("advantage", "token")
    for name in chosen:
        lookup(name)
    steps = list(_steps(groups))
    order = np.concatenate([index for index, _ in steps]) if steps else np.array([], dtype=int)
    tables = _Tables(groups.select(order), tolerance)
    grpo, _, _ = _advantages("grpo", {}, steps, tolerance)
    return [_outcome(name, options or {}, steps, tables, grpo, tolerance) for name in chosen]


class _Tables:
    """What every outcome is measured against, in the order of the steps."""

    def __init__(self, groups: Groups, tolerance: Tolerance) -> None:
        self.summary = GroupSummary.of(groups, tolerance)
        self.group_of = groups.group_of
        self.n_groups = len(groups)
        self.tied = self.summary.tied[self.group_of]
        self.mixed = self.summary.mixed[self.group_of]
        verdicts = GroupSummary.of(groups, tolerance, "correct")
        self.judged = bool(verdicts.eligible.any())
        self.same_verdict = verdicts.tied[self.group_of]


def _outcome(
    name: str,
    options: Mapping[str, Any],
    steps: list[tuple[NDArray[np.int64], Groups]],
    tables: _Tables,
    grpo: NDArray[np.float64],
    tolerance: Tolerance,
) -> Outcome:
    if (kind := kind_of(name)) not in ESTIMATOR_KINDS:
        return Outcome(name, skipped=f"a {kind} remedy leaves no trace in recorded rewards")
    try:
        advantages, seconds, missing = _advantages(name, options, steps, tolerance)
    except UsageError as reason:
        return Outcome(name, skipped=str(reason))
    square = advantages**2
    total = float(square.sum())
    moved = np.zeros(tables.n_groups, dtype=bool)
    moved[tables.group_of[advantages != 0]] = True
    eligible = tables.summary.eligible
    acr = ratio(int(tables.summary.tied.sum()), int(eligible.sum()))
    turned = np.sign(advantages) != np.sign(grpo)
    return Outcome(
        name,
        acr_before=acr,
        acr_after=ratio(int((eligible & ~moved).sum()), int(eligible.sum())),
        effective_batch=ratio(int(np.count_nonzero(advantages)), len(advantages)),
        tied_share=ratio(float(square[tables.tied].sum()), total),
        sign_changes=ratio(int((turned & tables.mixed).sum()), int(tables.mixed.sum())),
        phantom=ratio(float(square[tables.same_verdict].sum()), total) if tables.judged else nan,
        largest=float(np.abs(advantages).max(initial=0.0)),
        norm=sqrt(total / len(advantages)) if len(advantages) else nan,
        seconds=seconds,
        missing=missing,
    )


def _advantages(
    name: str,
    options: Mapping[str, Any],
    steps: list[tuple[NDArray[np.int64], Groups]],
    tolerance: Tolerance,
) -> tuple[NDArray[np.float64], float, tuple[str, ...]]:
    estimate = _build(name, options, tolerance)
    start = time.perf_counter()
    parts = [np.asarray(estimate(groups), dtype=np.float64) for _, groups in steps]
    seconds = time.perf_counter() - start
    missing = tuple(estimate.reading.get("missing", ()))
    return (np.concatenate(parts) if parts else np.array([])), seconds, missing


def _build(name: str, options: Mapping[str, Any], tolerance: Tolerance) -> Estimator:
    plain = create(name, tolerance=tolerance)
    known = {option: value for option, value in options.items() if hasattr(plain, option)}
    return create(name, tolerance=tolerance, **known) if known else plain


def _steps(groups: Groups) -> Iterator[tuple[NDArray[np.int64], Groups]]:
    """Yield the groups of each step, with their places, in ascending order of the steps."""
    order = np.argsort(groups.step, kind="stable")
    ends = np.flatnonzero(np.diff(groups.step[order])) + 1
    for index in np.split(order, ends):
        if len(index):
            yield index, groups.select(index)

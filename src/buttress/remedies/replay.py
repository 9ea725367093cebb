"""Recorded groups under each remedy, without a GPU: what would its advantages have been?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.measures.statistics import ratio
from buttress.measures.summary import GroupSummary
from buttress.remedies.registry import ESTIMATOR_KINDS, create, kind_of, lookup, names
from buttress.remedies.resampled import resampled


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one remedy would have made of the recorded rewards; NaN where unknown.

    Attributes
    ----------
    acr_before, acr_after
        Share of tied groups, and of groups whose advantages are all exactly 0. The second falls by
        definition where a remedy acts on tied groups: it is not a gain by itself.
    effective_batch, tied_moved
        Share of the rollouts with an advantage other than 0, and the part of it in tied groups.
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
    rollouts, extra_rollouts
        Rollouts that the method generates per recorded one, and how many more these are over the
        run; below 1 and negative where it saves some. An estimator takes the recorded rollouts as
        they are: 1 and 0.
    how
        For a way of sampling, how its numbers were estimated; the others are over the rollouts that
        it would have trained on, with GRPO's advantages.
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
    tied_moved: float = nan
    tied_share: float = nan
    sign_changes: float = nan
    phantom: float = nan
    largest: float = nan
    norm: float = nan
    rollouts: float = nan
    extra_rollouts: float = nan
    how: str = ""
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
        Names from the catalogue; by default all of kind ``advantage``, ``token`` or ``sampling``.
        Others, which act on the loss or make the reward, are listed as skipped.
    options
        Options for every remedy that has them, e.g. ``{"eps": 1e-6}``.

    Examples
    --------
    >>> [outcome] = replay(Groups.from_nested([[1, 0], [0, 0]]), ["rloo"])
    >>> outcome.acr_before, outcome.acr_after, outcome.largest
    (0.5, 0.5, 1.0)
    """
    chosen = list(remedies) if remedies is not None else names("advantage", "token", "sampling")
    for name in chosen:
        lookup(name)
    recorded = Recorded(groups, tolerance)
    return [recorded.outcome(name, options or {}) for name in chosen]


class Recorded:
    """A recorded run, ready to be played under one remedy after the other."""

    def __init__(self, groups: Groups, tolerance: Tolerance = DEFAULT_TOLERANCE) -> None:
        self.steps = list(_steps(groups))
        places = [index for index, _ in self.steps]
        self.groups = groups.select(np.concatenate([np.array([], dtype=int), *places]))
        self.tolerance = tolerance
        self.summary = GroupSummary.of(self.groups, tolerance)
        self._group_of = self.groups.group_of
        verdicts = GroupSummary.of(self.groups, tolerance, "correct")
        self._judged = bool(verdicts.eligible.any())
        self._same_verdict = verdicts.tied[self._group_of]
        self._grpo, _, _ = self._advantages("grpo", {})

    @property
    def acr(self) -> float:
        """Share of tied groups."""
        return ratio(int(self.summary.tied.sum()), int(self.summary.eligible.sum()))

    def outcome(self, name: str, options: Mapping[str, Any] | None = None) -> Outcome:
        """Return what one remedy would have made of the run."""
        kind, options = kind_of(name), options or {}
        try:
            if kind in ESTIMATOR_KINDS:
                return self._estimated(name, options)
            if kind == "sampling":
                return self._sampled(name, options)
        except UsageError as reason:
            return Outcome(name, skipped=str(reason))
        return Outcome(name, skipped=f"a {kind} remedy leaves no trace in recorded rewards")

    def _estimated(self, name: str, options: Mapping[str, Any]) -> Outcome:
        advantages, seconds, missing = self._advantages(name, options)
        outcome = self._measured(name, advantages, np.ones(len(self.groups)))
        return replace(outcome, rollouts=1.0, extra_rollouts=0.0, seconds=seconds, missing=missing)

    def _sampled(self, name: str, options: Mapping[str, Any]) -> Outcome:
        start = time.perf_counter()
        played = resampled(name, self.steps, self.tolerance, _known(create(name), options))
        n = self.groups.n_samples
        return replace(
            self._measured(name, self._grpo, played.weight),
            rollouts=ratio(played.rollouts, n),
            extra_rollouts=played.rollouts - n if n else nan,
            how=played.how,
            seconds=time.perf_counter() - start,
        )

    def _measured(
        self, name: str, advantages: NDArray[np.float64], weight: NDArray[np.float64]
    ) -> Outcome:
        """Return the numbers over groups that count `weight` times."""
        of, summary = self._group_of, self.summary
        counted = weight[of]
        square = advantages**2 * counted
        total, n = float(square.sum()), float(counted.sum())
        moved = np.zeros(len(self.groups), dtype=bool)
        moved[of[advantages != 0]] = True
        eligible = weight * summary.eligible
        mixed = counted * summary.mixed[of]
        turned = np.sign(advantages) != np.sign(self._grpo)
        shown = np.abs(advantages[counted > 0])
        return Outcome(
            name,
            acr_before=self.acr,
            acr_after=ratio(float(eligible[~moved].sum()), float(eligible.sum())),
            effective_batch=ratio(float(counted[advantages != 0].sum()), n),
            tied_moved=ratio(float(counted[(advantages != 0) & summary.tied[of]].sum()), n),
            tied_share=ratio(float(square[summary.tied[of]].sum()), total),
            sign_changes=ratio(float(mixed[turned].sum()), float(mixed.sum())),
            phantom=ratio(float(square[self._same_verdict].sum()), total) if self._judged else nan,
            largest=float(shown.max(initial=0.0)),
            norm=sqrt(total / n) if n else nan,
        )

    def _advantages(
        self, name: str, options: Mapping[str, Any]
    ) -> tuple[NDArray[np.float64], float, tuple[str, ...]]:
        plain = create(name, tolerance=self.tolerance)
        known = _known(plain, options)
        estimate = create(name, tolerance=self.tolerance, **known) if known else plain
        # what looks at one group at a time may see them all at once
        batches = [groups for _, groups in self.steps] if estimate.by_step else [self.groups]
        start = time.perf_counter()
        parts = [np.asarray(estimate(groups), dtype=np.float64) for groups in batches]
        seconds = time.perf_counter() - start
        missing = tuple(estimate.reading.get("missing", ()))
        return np.concatenate([np.array([]), *parts]), seconds, missing


def _known(plain: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in options.items() if hasattr(plain, option)}


def _steps(groups: Groups) -> Iterator[tuple[NDArray[np.int64], Groups]]:
    """Yield the groups of each step, with their places, in ascending order of the steps."""
    order = np.argsort(groups.step, kind="stable")
    ends = np.flatnonzero(np.diff(groups.step[order])) + 1
    for index in np.split(order, ends):
        if len(index):
            yield index, groups.select(index)

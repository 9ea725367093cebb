"""The base of every advantage estimator: rewards of groups in, one advantage per rollout out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import DEFAULT_TOLERANCE, Groups, Tolerance
from buttress.groups.arrays import to_numpy
from buttress.measures.statistics import ratio
from buttress.remedies.batch import Batch
from buttress.remedies.dense import Dense
from buttress.remedies.moments import Moments
from buttress.remedies.view import View


@dataclass(kw_only=True, eq=False)
class Estimator:
    """Base class; a subclass is a dataclass whose fields are its options.

    A subclass writes `compute`, and where it needs them `collect` (further batch statistics),
    `learn` (state, after the step), `check` (options), `_state`, `_restore` and `_absorb`.
    One call is one training step. `batch` is a `Batch` where the class says ``batchwide = True``
    and may be None elsewhere. Whatever `compute` returns,

    - an unscorable sample gets exactly 0,
    - a tied group, or one with fewer than two scorable samples, gets exactly 0, unless the class
      says ``signals_ties = True``,
    - the result has the kind, dtype, device and order of ``groups.values``.
    """

    signals_ties: ClassVar[bool] = False
    ordered: ClassVar[bool] = False  # the order of a group's samples matters
    batchwide: ClassVar[bool] = False  # it uses statistics of the whole step
    wants: ClassVar[tuple[str, ...]] = ()  # columns that it uses

    tolerance: Tolerance = field(default=DEFAULT_TOLERANCE, metadata={"common": True})

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, Tolerance):
            raise UsageError(f"tolerance must be a Tolerance; got {self.tolerance!r}")
        self.check()
        self._last: tuple[Batch | None, View, Any] | None = None
        self._notes: dict[str, Any] = {}
        self._read: dict[str, Any] | None = None

    def __call__(self, groups: Groups, batch: Batch | None = None) -> Any:
        """Return the advantages of one step, flat, in the order of the samples.

        Parameters
        ----------
        groups
            The rollouts of this step (or of this rank's part of it).
        batch
            Statistics of the whole step where it is spread over ranks: the sum of
            `statistics(part)` over them. By default those of `groups`.
        """
        view = self._view(groups)
        if batch is None and self.batchwide:
            batch = Batch.of(view, self.collect(view))
        self.prepare(batch)
        parts = [self._silence(block, self.compute(block, batch)) for block in view.blocks]
        advantages = view.flatten(self.rescale(view, parts))
        self._notes = self.learn(view, batch)
        self._last, self._read = (batch, view, advantages), None
        return advantages

    def statistics(self, groups: Groups) -> Batch:
        """Return what this part of a step adds to the batch statistics."""
        view = self._view(groups)
        return Batch.of(view, self.collect(view))

    @property
    def reading(self) -> dict[str, Any]:
        """What the last call saw and did; empty before the first call.

        ``acr`` before and ``acr_after`` after the estimator (groups all of whose advantages are
        exactly 0; of this rank's groups), counts of groups and samples, the mean reward, columns
        that were wanted and missing, and what the estimator itself decided.
        """
        if self._read is None:
            self._read = self._reading()
        return dict(self._read)

    def state_dict(self) -> dict[str, Any]:
        """Return the state between steps, in plain Python objects that JSON can hold."""
        return {"estimator": type(self).__name__, **self._state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` of the same estimator gave."""
        if not isinstance(state, Mapping):
            raise UsageError(f"a state is what state_dict gave; got {type(state).__name__}")
        if state.get("estimator") != type(self).__name__:
            raise UsageError(
                f"this state belongs to {state.get('estimator')!r}, not {type(self).__name__!r}"
            )
        self._restore({name: value for name, value in state.items() if name != "estimator"})

    def merge(self, other: Self) -> None:
        """Take in the state of the same estimator on another rank."""
        if type(other) is not type(self):
            raise UsageError(f"cannot merge {type(other).__name__} into {type(self).__name__}")
        self._absorb(other)

    @property
    def by_step(self) -> bool:
        """Whether its result depends on which groups stand in one step, or on earlier steps."""
        return self.batchwide or type(self).learn is not Estimator.learn

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles keep state and reading, not the rollouts of the last step."""
        return {**self.__dict__, "_read": self.reading, "_last": None}

    # --- what a subclass writes ---

    def check(self) -> None:
        """Raise `UsageError` where an option has a bad value."""

    def collect(self, view: View) -> Mapping[str, Moments]:
        """Return further batch statistics."""
        return {}

    def prepare(self, batch: Any) -> None:
        """Decide what holds for the whole step."""

    def compute(self, block: Dense, batch: Any) -> Any:
        """Return advantages in cells ``(group, sample)``."""
        raise NotImplementedError

    def rescale(self, view: View, parts: list[Any]) -> list[Any]:
        """Return the cells of all blocks, changed by what they have in common."""
        return parts

    def silent(self, block: Dense) -> NDArray[np.bool_]:
        """Return the groups, on the host, that get exactly 0 whatever `compute` says."""
        if self.signals_ties:
            return block.scorable < 1
        return block.silent

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns that it uses with its options; its page says what it does without them."""
        return self.wants

    def learn(self, view: View, batch: Any) -> dict[str, Any]:
        """Update the state after the step; the result goes to the reading."""
        return {}

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        pass

    def _absorb(self, other: Self) -> None:
        pass

    # --- the frame around them ---

    def _view(self, groups: Groups) -> View:
        return View.of(groups, self.tolerance)

    def _silence(self, block: Dense, cells: Any) -> Any:
        return block.choose(self.silent(block), block.zero, block.hide(cells))

    def _reading(self) -> dict[str, Any]:
        if self._last is None:
            return {}
        batch, view, advantages = self._last
        batch = batch or Batch.of(view, {})
        eligible = view.summary.eligible
        silent = np.ones(len(eligible), dtype=bool)
        moved = np.flatnonzero(to_numpy(advantages))
        silent[view.groups.group_of[moved]] = False
        return {
            "acr": batch.acr,
            "acr_after": ratio(int((silent & eligible).sum()), int(eligible.sum())),
            "groups": batch.groups,
            "eligible": batch.eligible,
            "tied": batch.tied,
            "samples": batch.samples,
            "unscorable": batch.unscorable,
            "reward_mean": batch.reward.known_mean,
            "missing": [name for name in self.wanted if name not in view.groups.columns],
            **self._notes,
        }

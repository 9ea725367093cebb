"""The base of estimators that return one advantage per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from buttress.groups import Groups
from buttress.groups.arrays import to_numpy
from buttress.measures.summary import GroupSummary
from buttress.remedies.batch import Batch
from buttress.remedies.estimator import Estimator
from buttress.remedies.token_credit.cells import TokenCells
from buttress.remedies.token_credit.columns import TokenColumns


@dataclass(kw_only=True, eq=False)
class TokenEstimator(Estimator):
    """Base class; a subclass writes `compute`, per sample as in `Estimator`, and `spread`.

    Whatever `spread` returns, a token that `mask` leaves out gets exactly 0, and so does every
    token of an unscorable sample. A tied group, or one of one sample, keeps what `spread` gives it.
    """

    signals_ties = True
    needs: ClassVar[tuple[str, ...]] = ()  # token columns that it cannot do without
    takes: ClassVar[tuple[str, ...]] = ()  # and those that it uses where given

    def __call__(  # pyrefly: ignore[bad-override]
        self, groups: Groups, tokens: TokenColumns | None = None, batch: Batch | None = None
    ) -> Any:
        """Return the advantages of one step.

        Parameters
        ----------
        groups
            The rollouts of this step (or of this rank's part of it).
        tokens
            Columns with one row per sample, in the order of the samples.
        batch
            Statistics of the whole step where it is spread over ranks.

        Returns
        -------
        array
            Shape ``(sample, token)``, or ``(sample,)`` without `tokens`; kind, dtype and device are
            those of the rewards.

        Raises
        ------
        UsageError
            Where `tokens` lacks a column, or one has the wrong shape or is not finite; the state
            of the estimator is then as before.
        """
        if tokens is None:
            return super().__call__(groups, batch)
        tokens.check(groups.n_samples, self.needs)
        summary = GroupSummary.of(groups, self.tolerance)
        cells = TokenCells.of(groups, summary, tokens, self.needs + self.takes)
        flat = super().__call__(groups, batch)
        return self._spread(cells.with_advantage(flat), flat)

    def spread(self, cells: TokenCells) -> Any:
        """Return advantages in cells ``(sample, token)``."""
        raise NotImplementedError

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns that it uses: those of tokens as ``token/<name>``."""
        return (*self.wants, *(f"token/{name}" for name in self.needs))

    def _spread(self, cells: TokenCells, flat: Any) -> Any:
        batch, view, _ = self._last or (None, self._view(cells.groups), None)
        xp, result = cells.xp, cells.hide(cells.advantage)
        if 0 not in cells.mask.shape:
            result = cells.hide(self.spread(cells))
        moved = to_numpy(xp.any(result != 0, axis=1))
        self._last, self._read = (batch, view, moved), None
        self._notes = {**self._notes, "missing": []}
        return xp.astype(result, flat.dtype)

"""Token columns beside the advantages of their samples, ready to compute with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.groups.arrays import take, to_numpy
from buttress.measures.summary import GroupSummary
from buttress.remedies.token_credit.columns import TokenColumns

# A difference of rewards or advantages below this has no sign.
NO_SIGN = 1e-6


@dataclass(frozen=True, eq=False)
class TokenCells:
    """One batch in the array library and on the device of its rewards, in float64 there.

    Attributes
    ----------
    mask
        Shape ``(sample, token)``: tokens that count, of scorable samples.
    advantage
        Shape ``(sample, 1)``: what the estimator gives the whole sample.
    columns
        The numeric columns, 0 where `mask` is False; `belief` holds NaN where it is unknown.
    groups, summary
        The groups that the rows belong to, and their order statistics.
    """

    xp: Any
    mask: Any
    advantage: Any
    columns: dict[str, Any]
    groups: Groups
    summary: GroupSummary

    @classmethod
    def of(
        cls, groups: Groups, summary: GroupSummary, tokens: TokenColumns, names: Sequence[str]
    ) -> TokenCells:
        """Build cells from columns of the right shapes; the advantage is 0 until `with_advantage`.

        Raises `UsageError` where a column of these names is not finite on a token that counts, or
        a belief is no probability.
        """
        like = groups.values
        xp = array_namespace(like)
        # the device "mps" has no float64
        wide = xp.float32 if "mps" in str(device(like)) else xp.float64

        def lift(values: Any, dtype: Any = wide) -> Any:
            if isinstance(like, np.ndarray):
                return np.asarray(to_numpy(values), dtype=dtype)
            values = values.detach() if hasattr(values, "detach") else values
            return xp.asarray(values, dtype=dtype, device=device(like))

        scored = lift(np.isfinite(groups.rewards), xp.bool)
        mask = lift(tokens.mask, xp.bool) & scored[:, None]
        zero = lift(np.zeros((groups.n_samples, 1)))
        cells = cls(xp, mask, zero, {}, groups, summary)
        for name in names:
            if tokens[name] is not None:
                cells.columns[name] = cells._checked(name, lift(tokens[name]))
        return cells

    def with_advantage(self, flat: Any) -> TokenCells:
        """Return the same tokens with the advantages of their samples."""
        return replace(self, advantage=self.xp.astype(flat, self.advantage.dtype)[:, None])

    def _checked(self, name: str, values: Any) -> Any:
        xp = self.xp
        if name == "prior":
            scored = xp.any(self.mask, axis=1)
            self._refuse(name, scored & ~((values >= 0) & (values <= 1)), "no probability")
            return values
        if name == "belief":
            outside = self.mask & ((values < 0) | (values > 1))
            self._refuse(name, outside, "no probability (is it a log-probability?)")
            return xp.where(self.mask, values, xp.asarray(np.nan, dtype=values.dtype))
        self._refuse(name, self.mask & ~xp.isfinite(values), "not finite")
        return self.hide(values)

    def _refuse(self, name: str, bad: Any, fault: str) -> None:
        bad = to_numpy(bad)
        if bad.any():
            first = ", ".join(str(place) for place in np.argwhere(bad)[0])
            raise UsageError(f"{name} is {fault} at {bad.sum()} places, first at [{first}]")

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def hide(self, cells: Any) -> Any:
        """Return the cells with 0 where no token counts."""
        return self.xp.where(self.mask, cells, self.xp.zeros_like(cells[:1, :1]))

    def lift(self, values: NDArray[Any]) -> Any:
        """Return host values per sample as an array of shape ``(sample, 1)``, flags as flags."""
        dtype = self.xp.bool if values.dtype == bool else self.advantage.dtype
        return self.xp.asarray(values, dtype=dtype, device=device(self.advantage))[:, None]

    @property
    def compared(self) -> NDArray[np.bool_]:
        """Per sample on the host: in a group whose rewards differ."""
        return self.summary.mixed[self.groups.group_of]

    def in_groups(self, values: Any) -> Any:
        """Return sums over the samples of each group, handed back to each of its samples.

        Shape ``(sample, k)`` in and out.
        """
        xp = self.xp
        padded = xp.concat([values, xp.zeros_like(values[:1, :])], axis=0)
        rows = take(padded, self._rows.reshape(-1))
        sums = xp.sum(xp.reshape(rows, (*self._rows.shape, values.shape[1])), axis=1)
        return take(sums, self.groups.group_of)

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Rows of each group, shape ``(group, widest)``; one past the last row is padding."""
        groups = self.groups
        column = np.arange(int(groups.sizes.max()))
        rows = groups.offsets[:-1, None] + column
        return np.where(column < groups.sizes[:, None], rows, groups.n_samples)

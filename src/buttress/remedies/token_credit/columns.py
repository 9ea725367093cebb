"""What the trainer knows of every token, as given and checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from buttress.errors import UsageError
from buttress.groups.arrays import take


@dataclass(frozen=True, eq=False)
class TokenColumns:
    """Numbers per token of one batch: NumPy arrays or torch tensors, detached before use.

    Shape ``(sample, token)`` unless it says otherwise; what `mask` leaves out may hold anything.
    Only `mask` is always needed; the page of an estimator names the others.

    Attributes
    ----------
    mask
        1 or True on the tokens that the policy wrote and that count.
    entropy
        Entropy of the policy where the token was drawn, nats.
    logp, ref_logp
        Log-probability of the token under the policy and under the reference policy, nats.
    belief
        Probability in [0, 1] of the reference answer once the token is written, NaN where it was
        not asked for.
    prior
        Shape ``(sample,)``; the same before the first token.
    """

    mask: Any
    entropy: Any = None
    logp: Any = None
    ref_logp: Any = None
    belief: Any = None
    prior: Any = None

    def select(self, index: Any) -> TokenColumns:
        """Return these rows: ``select(groups.order)`` sorts rows of the input by group.

        Examples
        --------
        >>> import numpy as np
        >>> TokenColumns(np.array([[1, 1], [1, 0]])).select(np.array([1, 0])).mask.tolist()
        [[1, 0], [1, 1]]
        """
        return replace(self, **{name: take(self[name], index) for name in self._given()})

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def check(self, n_samples: int, needs: Iterable[str]) -> None:
        """Raise `UsageError` that names every missing column and every wrong shape."""
        missing = [name for name in needs if self[name] is None]
        if missing:
            raise UsageError(
                f"the token columns lack {', '.join(missing)}; given: {', '.join(self._given())}"
            )
        shape = tuple(self.mask.shape)
        if len(shape) != 2 or shape[0] != n_samples:
            raise UsageError(
                f"mask has shape {shape}; expected ({n_samples}, tokens), one row per sample"
            )
        wrong = [
            f"{name} has shape {tuple(self[name].shape)}, expected {expected}"
            for name in self._given()
            if tuple(self[name].shape) != (expected := shape[:1] if name == "prior" else shape)
        ]
        if wrong:
            raise UsageError("; ".join(wrong))

    def _given(self) -> list[str]:
        return [field.name for field in fields(self) if self[field.name] is not None]

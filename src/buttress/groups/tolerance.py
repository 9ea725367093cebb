"""When two rewards count as equal."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far rewards may lie apart and still be tied, and when a small range is only noise.

    Parameters
    ----------
    atol, rtol
        A group is tied when ``max - min <= atol + rtol * max|r|``, in float64. A standard deviation
        is never used: in float32 it is not exactly zero for eight times 0.7.
    resolution
        A mixed group whose range is at most ``resolution`` times the run's reward scale is
        near-tied. 1e-2 is the reward resolution of arXiv 2609.19164 for a verifier in [0, 1].
    """

    atol: float = 1e-6
    rtol: float = 1e-6
    resolution: float = 1e-2

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "resolution"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise UsageError(f"{name} must be a finite number, 0 or more; got {value!r}")

    @classmethod
    def of(cls, value: Tolerance | float | None) -> Tolerance:
        """Return a tolerance as it is, the default for None; a number sets `atol` and `rtol`."""
        if isinstance(value, Tolerance):
            return value
        return cls() if value is None else cls(atol=value, rtol=value)

    def equal(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.bool_]:
        """Return where ``high - low`` is within the tolerance; False where either is NaN.

        Examples
        --------
        >>> DEFAULT_TOLERANCE.equal(np.array([1.0, 0.0]), np.array([1.000001, 0.1])).tolist()
        [True, False]
        """
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        magnitude = np.maximum(np.abs(low), np.abs(high))
        with np.errstate(over="ignore"):
            return high - low <= self.atol + self.rtol * magnitude


DEFAULT_TOLERANCE = Tolerance()

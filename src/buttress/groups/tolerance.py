"""When two rewards count as equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
            if not (np.isfinite(value) and value >= 0):
                raise UsageError(f"{name} must be a finite number, 0 or more; got {value!r}")

    def equal(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return where ``high - low`` is within the tolerance; False where either is NaN."""
        magnitude = np.maximum(np.abs(low), np.abs(high))
        return high - low <= self.atol + self.rtol * magnitude


DEFAULT_TOLERANCE = Tolerance()

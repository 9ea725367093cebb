"""Which groups hold the same text again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups, Run
from buttress.measures import distinct_completions
from buttress.rules import thresholds as at

_PART = 4000  # groups in which repeated texts are counted; all groups are asked for identical ones
_TEXTS = 16


@dataclass(frozen=True, eq=False, slots=True)
class Repeats:
    """Repeated completions; masks of shape ``(group,)``.

    Attributes
    ----------
    known
        Groups of two or more rollouts with known texts.
    identical
        Those that hold one text only.
    length, unit
        Median length of the completions in identical groups, in ``tokens`` or ``characters``; NaN
        where unknown.
    repeated_rate
        Share of the completions outside all-correct groups that repeat another of their group.
    """

    known: NDArray[np.bool_]
    identical: NDArray[np.bool_]
    length: float
    unit: str
    repeated_rate: float

    @property
    def long(self) -> bool:
        """Whether these texts are too long to repeat by chance."""
        limit = at.LONG_TOKENS if self.unit == "tokens" else at.LONG_CHARACTERS
        return self.length >= limit


def read_repeats(run: Run, right: NDArray[np.bool_]) -> Repeats | None:
    """Return what repeats, or None where no text is known.

    Parameters
    ----------
    right
        Groups that are all correct, shape ``(group,)``.
    """
    groups = run.groups
    codes = text_codes(groups)
    if codes is None or not len(groups):
        return None
    filled = groups.sizes > 0
    starts = groups.offsets[:-1][filled]
    if not len(starts):
        return None
    same, unknown = np.zeros(len(groups), dtype=bool), np.zeros(len(groups), dtype=bool)
    same[filled] = np.minimum.reduceat(codes, starts) == np.maximum.reduceat(codes, starts)
    unknown[filled] = np.minimum.reduceat(codes, starts) == UNKNOWN
    known = (groups.sizes >= 2) & ~unknown
    identical = known & same
    asked = np.flatnonzero(known & ~right)
    part = asked[:: -(-len(asked) // _PART)] if len(asked) else asked
    length, unit = _length(run, identical if identical.any() else known)
    return Repeats(known, identical, length, unit, _repeated_rate(groups, codes, part))


UNKNOWN = np.iinfo(np.int64).min


def text_codes(groups: Groups) -> NDArray[np.int64] | None:
    """Return one integer per completion, equal for equal texts; the lowest one where unknown."""
    texts = groups.columns.get("completion")
    if texts is None:
        return None
    if texts.dtype.kind in "iu":
        return texts.astype(np.int64, copy=False)
    known = (hash(text) if isinstance(text, str) else UNKNOWN for text in texts.tolist())
    return np.fromiter(known, dtype=np.int64, count=len(texts))


def _repeated_rate(groups: Groups, codes: NDArray[np.int64], part: NDArray[np.int64]) -> float:
    if not len(part):
        return float(np.nan)
    chosen = replace(groups, columns={"completion": codes}).select(part)
    distinct = distinct_completions(chosen)
    assert distinct is not None
    return float((chosen.sizes - distinct).sum() / chosen.n_samples)


def _length(run: Run, mask: NDArray[np.bool_]) -> tuple[float, str]:
    """Return the median length of the completions of these groups, and its unit."""
    groups = run.groups
    chosen = np.flatnonzero(mask)
    if not len(chosen):
        return float(np.nan), "tokens"
    part = groups.select(chosen[:: -(-len(chosen) // _PART)])
    tokens = part.column("length")
    if tokens is not None and np.isfinite(tokens).any():
        return float(np.nanmedian(tokens)), "tokens"
    texts = part.columns["completion"]
    if texts.dtype.kind not in "iu":
        sizes = [len(text) for text in texts.tolist() if isinstance(text, str)]
    else:
        sizes = _fetched(run, groups.offsets[:-1][chosen[:_TEXTS]])
    return (float(np.median(sizes)) if sizes else float(np.nan)), "characters"


def _fetched(run: Run, samples: NDArray[np.int64]) -> list[int]:
    if run.texts is None:
        return []
    try:
        return [len(text.completion) for text in run.texts(samples.tolist())]
    except (OSError, ValueError, LookupError):
        # the file may have gone since it was read
        return []

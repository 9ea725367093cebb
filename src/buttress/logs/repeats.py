"""The same rollouts written twice (a resumed run, a copied file) count once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

Rows = dict[str, NDArray[Any]]

_COMPARED = ("group", "prompt_id", "prompt", "sample", "completion", "reward", "advantage")


def drop_blocks(rows: Rows, builder: RolloutBuilder) -> Rows:
    """Return the rows without blocks that stand a second time.

    A block is a run of rows of one file and step. It is dropped only when it repeats an earlier
    block of the same step row for row, texts included. Equal completions inside a block, or in
    blocks that differ in one row, are honest and stay.
    """
    if "completion" not in rows:
        return rows
    step = rows.get("step", np.zeros(len(rows["row"]), dtype=np.int64))
    new = np.ones(len(step), dtype=bool)
    new[1:] = (np.diff(rows["file"]) != 0) | (np.diff(step) != 0)
    starts = np.flatnonzero(new)
    scope = step[starts]
    sizes = np.diff(np.append(starts, len(step)))
    if len(np.unique(scope)) == len(starts):
        return rows
    digest = _digests(rows, starts, sizes)
    key = np.stack([scope.view(np.uint64), sizes.astype(np.uint64), digest], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    again = first[inverse.reshape(-1)] != np.arange(len(starts))
    again &= _varied(rows["completion"], starts, sizes)
    if not again.any():
        return rows
    keep = np.repeat(~again, sizes)
    dropped = int((~keep).sum())
    builder.note(repeated=builder.facts.repeated + dropped)
    builder.infer(
        f"{dropped} rollouts in {int(again.sum())} blocks stand in the log more than once; "
        "each was counted once"
    )
    return {name: column[keep] for name, column in rows.items()}


def _digests(rows: Rows, starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one hash per block over all rows, in their order."""
    mixed = np.zeros(len(rows["row"]), dtype=np.uint64)
    for name in _COMPARED:
        if name in rows:
            column = rows[name]
            if column.dtype.kind == "f":
                column = np.where(np.isnan(column), np.nan, column)  # one NaN of many
            mixed = _mix(mixed ^ column.astype(_wide(column), copy=False).view(np.uint64))
    place = np.arange(len(mixed)) - np.repeat(starts, sizes)
    return np.add.reduceat(_mix(mixed + place.astype(np.uint64)), starts)


def _wide(column: NDArray[Any]) -> type:
    return np.float64 if column.dtype.kind == "f" else np.int64


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64 bits (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _varied(texts: NDArray[Any], starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether a block holds two different texts; a block of one text proves nothing."""
    change = np.append(texts[1:] != texts[:-1], False)
    change[starts[1:] - 1] = False
    return np.add.reduceat(change, starts) > 0

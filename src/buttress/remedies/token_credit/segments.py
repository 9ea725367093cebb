"""Cutting responses into segments that hold equally many uncertain tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups.arrays import reward_array, take, to_numpy
from buttress.remedies import options


def segments_by_entropy(
    entropy: Any, mask: Any, percentile: float = 80.0, per_segment: int = 4
) -> Any:
    """Return the number of each token's segment; segments hold equally many uncertain tokens.

    A cut-point is a token whose entropy reaches the `percentile` of its own response; of m of them
    the j-th (from 0) belongs to segment ``floor(j S / m)``, with ``S = max(1, round(m / n))`` for n
    cut-points per segment on average. A segment begins at its first cut-point and runs to the next
    segment's; what comes before the first cut-point belongs to segment 0.

    Parameters
    ----------
    entropy, mask
        Shape ``(sample, token)``, nats and 0 or 1; NumPy or torch.
    percentile
        Of the entropies of one response, in [0, 100], interpolated linearly.
    per_segment
        n; the paper finds 4 best and 2 finer but slow.

    Returns
    -------
    array
        int64, shape ``(sample, token)``; -1 on tokens that `mask` leaves out.

    Notes
    -----
    Equal entropies are all cut-points. A response without tokens has no segment.

    Our reading: that a cut-point opens its segment, the rounding, and the percentile 80, which the
    paper does not state; it is the share of "forking tokens" in arXiv 2506.01939.

    Source: arXiv 2604.20659, section on segmentation.

    Examples
    --------
    >>> entropy = np.array([[0.1, 2.0, 0.1, 0.2, 3.0, 0.1]])
    >>> segments_by_entropy(entropy, entropy > 0, percentile=80, per_segment=1).tolist()
    [[0, 0, 0, 0, 1, 1]]
    """
    options.number("percentile", percentile, 0, 100)
    options.whole("per_segment", per_segment, 1)
    entropy, mask = reward_array(entropy), reward_array(mask)
    xp = array_namespace(entropy)
    mask = xp.astype(mask, xp.bool)
    if 0 in entropy.shape:
        return xp.zeros(entropy.shape, dtype=xp.int64, device=device(entropy))
    if bool(xp.any(mask & ~xp.isfinite(entropy))):
        raise UsageError("entropy is not finite on tokens that count")
    cuts = mask & (entropy >= _row_percentile(xp, entropy, mask, percentile))
    seen = xp.cumulative_sum(xp.astype(cuts, xp.int64), axis=1)
    total = seen[:, -1:]
    pieces = xp.astype(xp.round(xp.astype(total, xp.float64) / per_segment), xp.int64)
    zero = xp.zeros_like(total)
    pieces = xp.where(pieces > 0, pieces, zero + 1)
    place = xp.where(seen > 0, seen - 1, zero)
    segment = place * pieces // xp.where(total > 0, total, zero + 1)
    return xp.where(mask, segment, zero - 1)


def segment_ends(segments: Any) -> Any:
    """Return where segments end: the places at which to ask for the belief in the answer.

    Parameters
    ----------
    segments
        Shape ``(sample, token)``: numbers that do not fall along a response, -1 on tokens that do
        not count (they may stand between the tokens of a segment).

    Returns
    -------
    array
        bool, same shape, kind and device: the last token of each segment.

    Examples
    --------
    >>> segment_ends(np.array([[0, 0, -1, 1, 1, -1]])).tolist()
    [[False, True, False, False, True, False]]
    """
    ends = last_of_segment(to_numpy(segments))
    if isinstance(segments, np.ndarray):
        return ends
    xp = array_namespace(segments)
    return xp.asarray(ends, device=device(segments))


def last_of_segment(segments: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return `segment_ends` of an array on the host."""
    beyond = np.iinfo(np.int64).max
    real = segments >= 0
    later = np.where(real, segments, beyond)[:, ::-1]
    # the number of the next token that counts
    following = np.minimum.accumulate(later, axis=1)[:, ::-1]
    following = np.concatenate([following[:, 1:], np.full((len(real), 1), beyond)], axis=1)
    return real & (segments != following)


def _row_percentile(xp: Any, values: Any, mask: Any, percentile: float) -> Any:
    """Return a percentile of each row's tokens that count, shape ``(sample, 1)``."""
    rows, width = values.shape
    top = xp.zeros_like(values) + xp.inf
    ordered = xp.sort(xp.where(mask, values, top), axis=1)
    flat = xp.reshape(xp.where(xp.isfinite(ordered), ordered, xp.zeros_like(top)), (-1,))
    count = to_numpy(xp.sum(xp.astype(mask, xp.int64), axis=1))
    at = np.maximum(count - 1, 0) * (percentile / 100)
    start = np.arange(rows) * width
    below = take(flat, (start + np.floor(at)).astype(np.int64))
    above = take(flat, (start + np.ceil(at)).astype(np.int64))
    share = xp.asarray(at - np.floor(at), dtype=flat.dtype, device=device(values))
    return (below + (above - below) * share)[:, None]

"""Segments that hold equally many uncertain tokens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.remedies.token_credit import segment_ends, segments_by_entropy
from tests.remedies.tokens import batch

quick = settings(max_examples=50, deadline=None)


def test_by_hand():
    entropy = np.zeros((1, 12))
    entropy[0, [2, 3, 5, 8, 10]] = 1.0
    mask = np.ones((1, 12))
    # the 60th percentile of 7 zeros and 5 ones is 1: five cut-points
    got = segments_by_entropy(entropy, mask, 60, 2)
    assert got.tolist() == [[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]]
    got = segments_by_entropy(entropy, mask, 60, 1)
    assert got.tolist() == [[0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]]
    assert segments_by_entropy(entropy, mask, 60, 9).max() == 0
    # all entropies reach the lowest
    assert segments_by_entropy(entropy, mask, 0, 4).tolist() == [[0] * 4 + [1] * 4 + [2] * 4]


@quick
@given(st.integers(0, 999), st.sampled_from([0.0, 37.5, 80.0, 100.0]), st.integers(1, 5))
def test_in_loops(seed, percentile, per_segment):
    _, tokens = batch(seed=seed, width=17)
    got = segments_by_entropy(tokens.entropy, tokens.mask, percentile, per_segment)
    for row, mask, entropy in zip(got, tokens.mask > 0, tokens.entropy, strict=True):
        assert (row[~mask] == -1).all()
        if not mask.any():
            continue
        threshold = np.percentile(entropy[mask], percentile)
        cuts = entropy[mask] >= threshold
        pieces = max(1, round(cuts.sum() / per_segment))
        sizes = np.bincount(row[mask][cuts])
        assert len(sizes) == pieces == row.max() + 1
        assert np.ptp(sizes) <= 1
        assert (np.diff(row[mask]) >= 0).all()
        # a segment opens at a cut-point
        assert cuts[1:][np.diff(row[mask]) > 0].all()


@quick
@given(st.integers(0, 999))
def test_ends_in_loops(seed):
    _, tokens = batch(seed=seed)
    segments = segments_by_entropy(tokens.entropy, tokens.mask, 50, 1)
    got = segment_ends(segments)
    for row, ends in zip(segments, got, strict=True):
        expected = {int(np.flatnonzero(row == number)[-1]) for number in set(row) - {-1}}
        assert set(np.flatnonzero(ends).tolist()) == expected


@quick
@given(st.integers(0, 999))
def test_torch_agrees(seed):
    torch = pytest.importorskip("torch")
    _, tokens = batch(seed=seed)
    expected = segments_by_entropy(tokens.entropy, tokens.mask)
    got = segments_by_entropy(torch.as_tensor(tokens.entropy), torch.as_tensor(tokens.mask))
    assert got.dtype == torch.int64
    assert (got.numpy() == expected).all()
    ends = segment_ends(got)
    assert ends.dtype == torch.bool
    assert (ends.numpy() == segment_ends(expected)).all()


def test_empty_and_wrong():
    assert segments_by_entropy(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)
    assert segments_by_entropy(np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)
    assert segment_ends(np.zeros((2, 0), dtype=int)).shape == (2, 0)
    for wrong in ({"percentile": 101}, {"per_segment": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            segments_by_entropy(np.ones((1, 1)), np.ones((1, 1)), **wrong)
    with pytest.raises(ValueError, match="not finite"):
        segments_by_entropy(np.full((1, 1), np.nan), np.ones((1, 1)))

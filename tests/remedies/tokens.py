"""Batches of token columns for tests."""

from dataclasses import fields, replace

import numpy as np

import buttress as bt
from buttress.remedies import TokenColumns

MIXED = [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1], [0.5, 0.5], [1, None, 0], [1], [0, 1, 1, 0.5, 0.25]]


def batch(rewards=MIXED, seed=0, width=9):
    """Groups with every token column; masks have gaps, one row is masked throughout."""
    groups = bt.Groups.from_nested(rewards)
    draws = np.random.default_rng(seed)
    shape = (groups.n_samples, width)
    length = draws.integers(0, width + 1, len(groups.rewards))
    mask = (np.arange(width) < length[:, None]) & (draws.random(shape) < 0.85)
    if len(mask) > 2:
        mask[2] = False
    logp = -draws.exponential(size=shape)
    tokens = TokenColumns(
        mask=mask.astype(np.int64),
        entropy=draws.exponential(size=shape),
        logp=logp,
        ref_logp=logp + draws.normal(0, 0.3, shape),
        belief=draws.random(shape),
        prior=draws.random(len(mask)),
    )
    return groups, tokens


def each(tokens, change):
    """The same columns, each changed."""
    given = {one.name: getattr(tokens, one.name) for one in fields(tokens)}
    return replace(tokens, **{k: change(k, v) for k, v in given.items() if v is not None})


def on_torch(tokens, **kind):
    import torch

    return each(tokens, lambda _, values: torch.as_tensor(values, **kind))

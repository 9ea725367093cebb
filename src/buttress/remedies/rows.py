"""Rewards as rows in, advantages in the same rows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.groups.arrays import reward_array
from buttress.remedies.dense import take
from buttress.remedies.registry import estimator


def advantages(
    rewards: Any,
    group_ids: Any,
    method: str = "grpo",
    *,
    prompt_id: Any = None,
    columns: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return one advantage per row, in the order of the rows; no state is kept.

    Parameters
    ----------
    rewards
        Shape ``(row,)``: a NumPy array, a torch tensor or a list (gives NumPy). Null, NaN and
        infinite rewards are left out and get 0.
    group_ids
        Shape ``(row,)``: rows of one id are compared with each other.
    method
        A name in `remedies()`; `estimator` says what those stand for that give no advantages.
    prompt_id, columns
        One prompt per row, and further per-row columns, for the methods that need them.
    options
        Of the method.

    Returns
    -------
    array
        Same kind, shape, dtype and device (integers come back as the default float). Gradient
        flows through group statistics where `rewards` carries one.

    Examples
    --------
    >>> advantages([1, 0, 0, 1], ["a", "a", "b", "b"], method="dr_grpo").tolist()
    [0.5, -0.5, -0.5, 0.5]
    """
    values = reward_array(rewards)
    if values.ndim != 1:
        raise UsageError(
            f"rewards must be one number per row; got shape {tuple(values.shape)}. "
            "For (group, sample) arrays use estimator(...)(Groups.from_dense(...))"
        )
    groups = Groups.from_flat(values, group_ids, prompt_id=prompt_id, **dict(columns or {}))
    flat = estimator(method, **options)(groups)
    row = np.empty_like(groups.order)
    row[groups.order] = np.arange(len(row))
    if (groups.order == np.arange(len(row))).all():
        return flat
    from array_api_compat import array_namespace

    return take(array_namespace(flat), flat, row)

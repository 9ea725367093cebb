"""An estimator inside a trainer that hands over rewards and takes advantages back, no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.groups.arrays import take
from buttress.hooks.metrics import collapse_metrics, reading_metrics, widened
from buttress.measures import Levels
from buttress.remedies import estimator


class LiveEstimator:
    """A remedy that is fed one step after the other, and what the last step showed.

    Attributes
    ----------
    estimate
        The estimator; its `state_dict` is what to save with a checkpoint.
    metrics
        ``buttress/acr``, ``buttress/all_wrong``, ``buttress/all_correct``, ``buttress/acr_after``
        and the numbers of the remedy's own reading; empty before the first step.
    """

    def __init__(self, remedy: str, options: Mapping[str, Any]) -> None:
        self.estimate = estimator(remedy, **options)
        self.metrics: dict[str, float] = {}
        self._levels = Levels(np.nan, np.nan)

    def __call__(self, groups: Groups) -> Any:
        """Return one advantage per row of the input that the groups were built from."""
        flat = self.estimate(groups)
        self._levels = widened(self._levels, groups, self.estimate.tolerance)
        reading = self.estimate.reading
        found = {
            **collapse_metrics(groups, self._levels, self.estimate.tolerance),
            "acr_after": reading["acr_after"],
            **reading_metrics(reading),
        }
        self.metrics = {f"buttress/{name}": float(value) for name, value in found.items()}
        row = np.empty_like(groups.order)
        row[groups.order] = np.arange(len(row))
        return take(flat, row)

    def per_token(self, rewards: Any, mask: Any, index: Any, *, prompt_id: Any = None) -> Any:
        """Return advantages ``(response, token)`` from rewards and a mask of that shape.

        Rewards are summed over tokens; groups are the responses of one `index`. Every token of
        `mask` gets the advantage of its response.
        """
        totals = rewards.sum(dim=-1).detach()
        groups = Groups.from_flat(
            totals, np.asarray(index), prompt_id=prompt_id, length=mask.sum(dim=-1)
        )
        return self(groups).unsqueeze(-1) * mask


def check_offer(remedy: str, wanted: Collection[str], offered: Collection[str], who: str) -> None:
    """Raise `UsageError` where a remedy needs what a trainer does not hand over."""
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise UsageError(
            f"remedy {remedy!r} needs {', '.join(missing)} of each rollout, which {who} does not "
            f"hand over; it hands over reward, {', '.join(offered)}"
        )

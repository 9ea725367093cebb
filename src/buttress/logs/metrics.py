"""Metrics of a run under the names that TRL uses."""

from __future__ import annotations

import math
import re
from typing import Any

from buttress.logs.builder import RolloutBuilder
from buttress.logs.rows import number_or_nan

STEP_NAMES = ("step", "global_step", "training_step", "train_step", "_step", "train/global_step")
# Trackers put these before TRL's own names.
_PREFIXES = ("train/",)

# A row with one of these and no prompt, completion or group is a step's metrics.
TRAINER_NAMES = {
    "loss", "grad_norm", "learning_rate", "kl", "entropy", "reward_std", "frac_reward_zero_std",
    "num_tokens", "clip_ratio", "completions/mean_length", "completions/clipped_ratio",
}  # fmt: skip

# verl's name -> TRL's name for the same quantity.
VERL_NAMES = {
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "learning_rate",
    "actor/entropy": "entropy",
    "actor/kl_loss": "kl",
    "actor/pg_clipfrac": "clip_ratio",
    "critic/score/mean": "reward",
    "response_length/mean": "completions/mean_length",
    "response_length/min": "completions/min_length",
    "response_length/max": "completions/max_length",
    "response_length/clip_ratio": "completions/clipped_ratio",
}


def trl_name(name: str) -> str:
    """Return TRL's name for a metric; its own name where TRL has none.

    >>> trl_name("train/grad_norm"), trl_name("actor/pg_loss"), trl_name("val/acc")
    ('grad_norm', 'loss', 'val/acc')
    """
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return VERL_NAMES.get(name, name)


class MetricRows:
    """Collects metrics row by row and hands them to the builder by name.

    A metric stands under its own name and, where that differs, under TRL's, unless a file has the
    latter itself.
    """

    def __init__(self) -> None:
        self._steps: dict[str, list[int]] = {}
        self._values: dict[str, list[float]] = {}

    def add(self, step: int, name: str, value: Any) -> None:
        """Take one entry; null is NaN, and what is no number is passed over."""
        number = _number(value)
        if number is not None:
            self._steps.setdefault(name, []).append(step)
            self._values.setdefault(name, []).append(number)

    def hand_over(self, builder: RolloutBuilder) -> None:
        """Give everything to the builder."""
        for name, steps in self._steps.items():
            other = trl_name(name)
            for one in {name, other if other not in self._steps else name}:
                builder.scalars(one, steps, self._values[name])


def _number(value: Any) -> float | None:
    if value is None:
        return math.nan
    if isinstance(value, str) or not isinstance(value, int | float | bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def step_of(row: dict[str, Any]) -> int | None:
    """Return the step that a row of metrics names, None where it names none.

    ms-swift writes ``"global_step/max_steps": "3/200"``.
    """
    for name in STEP_NAMES:
        number = number_or_nan(row.get(name))
        if abs(number) < 1 << 53:
            return int(number)
    spelled = row.get("global_step/max_steps")
    if isinstance(spelled, str) and re.match(r"\d{1,15}/", spelled):
        return int(spelled.partition("/")[0])
    return None

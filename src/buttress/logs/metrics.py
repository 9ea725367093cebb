"""Metrics of a run under the names that TRL uses."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Mapping
from typing import Any

from buttress.logs.builder import RolloutBuilder
from buttress.logs.rows import number_or_nan
from buttress.logs.trackers.metric_names import aliases, derived
from buttress.logs.trackers.metric_names import trl_name as trl_name

# Where a row of metrics says its step: the trainer's own count, then that of the tracker.
OWN_STEP_NAMES = (
    "step", "global_step", "training_step", "train_step", "train/global_step",
    "training/global_step", "trainer/global_step", "train/step", "rollout/step",
)  # fmt: skip
STEP_NAMES = (*OWN_STEP_NAMES, "_step")

# A row with one of these and no prompt, completion or group is a step's metrics.
TRAINER_NAMES = {
    "loss", "grad_norm", "learning_rate", "kl", "entropy", "reward_std", "frac_reward_zero_std",
    "num_tokens", "clip_ratio", "completions/mean_length", "completions/clipped_ratio",
}  # fmt: skip


class MetricRows:
    """Collects metrics value by value and hands them to the builder by name.

    A metric stands under its own name and, where that differs, under TRL's, unless the log has the
    latter itself. A value takes 16 bytes.
    """

    def __init__(self) -> None:
        self._steps: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}

    @property
    def names(self) -> Collection[str]:
        """Every name that has a value."""
        return self._steps.keys()

    def add(self, step: int, name: str, value: Any) -> None:
        """Take one entry; null is NaN, and what is no number is passed over."""
        number = _number(value)
        if number is not None:
            if name not in self._steps:
                self._steps[name], self._values[name] = array("q"), array("d")
            self._steps[name].append(step)
            self._values[name].append(number)

    def forget_from(self, step: int) -> None:
        """Drop what stands at a step or after it."""
        for name, steps in self._steps.items():
            kept = [at for at, one in enumerate(steps) if one < step]
            self._values[name] = array("d", [self._values[name][at] for at in kept])
            self._steps[name] = array("q", [steps[at] for at in kept])

    def hand_over(self, builder: RolloutBuilder) -> None:
        """Give everything to the builder."""
        for name in self._steps:
            builder.scalars(name, self._steps[name], self._values[name])
        for name, source in aliases(self._steps.keys()).items():
            builder.scalars(name, self._steps[source], self._values[source])
        for one, terms in derived(self._steps.keys()):
            total = self._sum(one.constant, terms)
            builder.scalars(one.name, list(total), list(total.values()))
            builder.infer(f"{one.name}: {one.said}")

    def _sum(self, constant: float, terms: Mapping[str, float]) -> dict[int, float]:
        """Return constant + sum of factor * metric at the steps that have every term."""
        columns = [
            {
                step: factor * value
                for step, value in zip(self._steps[name], self._values[name], strict=True)
            }
            for name, factor in terms.items()
        ]
        common = set.intersection(*map(set, columns))
        return {step: constant + sum(one[step] for one in columns) for step in sorted(common)}


def _number(value: Any) -> float | None:
    if value is None:
        return math.nan
    if isinstance(value, str) or not isinstance(value, int | float | bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def step_of(row: Mapping[str, Any], names: Collection[str] = STEP_NAMES) -> int | None:
    """Return the step that a row of metrics names, None where it names none.

    ms-swift writes ``"global_step/max_steps": "3/200"``.
    """
    for name in names:
        number = number_or_nan(row.get(name))
        if abs(number) < 1 << 53:
            return int(number)
    spelled = row.get("global_step/max_steps")
    if isinstance(spelled, str) and re.match(r"\d{1,15}/", spelled):
        return int(spelled.partition("/")[0])
    return None

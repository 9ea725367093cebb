"""The metrics of each step that a trainer logs, under TRL's names."""

from __future__ import annotations

import numpy as np

from buttress.lab.yardstick.draft import Draft, Floats


def step_metrics(draft: Draft) -> list[dict[str, float]]:
    """Return one mapping per step; metrics speak of all rollouts, whatever reaches the log."""
    found = []
    for place, step in enumerate(draft.logged_steps.tolist()):
        here = draft.steps == step
        line: dict[str, float] = {"step": step}
        line |= {name: float(values[place]) for name, values in draft.scalars.items()}
        line |= _rewards(draft, draft.reward[here], here) | _lengths(draft, here)
        found.append(line)
    return found


def _rewards(draft: Draft, reward: Floats, here: np.ndarray) -> dict[str, float]:
    known = reward[np.isfinite(reward)]
    spreads = [_std(row) for row in reward]
    found = {
        "reward": _mean(known),
        "reward_std": _mean(np.array(spreads)),
        # TRL asks for a deviation near zero, and finds none in a group that cannot be scored
        "frac_reward_zero_std": float(np.mean([0 <= one < 1e-8 for one in spreads])),
    }
    for name, values in draft.parts.items():
        part = values[here]
        part = part[np.isfinite(part)]
        found[f"rewards/{name}_reward/mean"] = _mean(part)
        found[f"rewards/{name}_reward/std"] = _std(part)
    return found


def _lengths(draft: Draft, here: np.ndarray) -> dict[str, float]:
    lengths = draft.lengths[here]
    return {
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float((~draft.ended[here]).mean()),
    }


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _std(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else float("nan")

"""Every advantage estimator against TRL's own lines for the same step, on the same tensor."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

import buttress as bt
from benchmarks.timing import Row, medians
from buttress.remedies.registry import names


def rows() -> list[Row]:
    """Measure a step of 64 groups of 8 against TRL, and one of 8,192 groups of 16 on NumPy."""
    return [*_against_trl(64, 8), *_large(8192, 16)]


def _against_trl(n_groups: int, size: int) -> list[Row]:
    import torch

    torch.set_num_threads(1)
    rewards = torch.from_numpy(_rewards(n_groups, size)).float().reshape(-1)
    calls: dict[str, Any] = {"trl": lambda: trl_advantages(rewards, size)}
    estimators = _estimators()
    for name, est in estimators.items():
        calls[name] = lambda est=est: est(_groups(rewards, n_groups, size))
    took = medians(calls, repetitions=199, clock=process_time)
    return [
        Row(
            f"{name}, {n_groups} groups of {size}, torch",
            took[name],
            "TRL's lines",
            took["trl"],
            "1.0 x",
            took[name] <= took["trl"],
        )
        for name in estimators
    ]


def _large(n_groups: int, size: int) -> list[Row]:
    rewards = _rewards(n_groups, size).reshape(-1)
    calls: dict[str, Any] = {"ptp": lambda: np.ptp(rewards.reshape(n_groups, size), axis=1)}
    estimators = _estimators()
    for name, est in estimators.items():
        calls[name] = lambda est=est: est(_groups(rewards, n_groups, size))
    took = medians(calls, clock=process_time)
    return [
        Row(
            f"{name}, {n_groups:,} groups of {size}, NumPy",
            took[name],
            "np.ptp",
            took["ptp"],
            "10 ms",
            took[name] < 0.01,
        )
        for name in estimators
    ]


def _estimators() -> dict[str, Any]:
    """Return every advantage estimator with its defaults, and the most that one can be told to."""
    found = {name: bt.estimator(name) for name in names("advantage")}
    return found | {"posterior, auto": bt.estimator("posterior", strength="auto", forget="auto")}


def trl_advantages(rewards: Any, size: int) -> Any:
    """Do what TRL 1.16 does for ``scale_rewards="group"``, its zero-deviation test included."""
    import torch
    from trl.trainer.utils import nanstd

    mean = torch.nanmean(rewards.view(-1, size), dim=1).repeat_interleave(size, dim=0)
    deviation = nanstd(rewards.view(-1, size), dim=1).repeat_interleave(size, dim=0)
    advantages = (rewards - mean) / (deviation + 1e-4)
    torch.isclose(deviation, torch.zeros_like(deviation)).float().mean().item()
    return torch.nan_to_num(advantages, nan=0.0)


def _rewards(n_groups: int, size: int) -> np.ndarray:
    draws = np.random.default_rng(0)
    return (draws.random((n_groups, size)) < draws.beta(0.5, 0.5, (n_groups, 1))).astype(float)


def _groups(rewards: Any, n_groups: int, size: int) -> bt.Groups:
    return bt.Groups.from_dense(rewards.reshape(n_groups, size), prompt_id=np.arange(n_groups))

"""A monitored training step with a remedy against TRL's own advantages and metrics of the step.

A step is everything from the rewards to the advantages, the alerts and the counts. What a log line
takes on top (one in ten steps by TRL's default) stands in a row of its own.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import count
from time import process_time
from typing import Any

import numpy as np

import buttress as bt
from benchmarks.timing import Row, medians

STEPS = 60  # at a time: three blocks of the monitor


def rows() -> list[Row]:
    """Measure 64 groups of 8 against TRL, and 8,192 groups of 16."""
    return [*_against_trl(64, 8), *_large(8192, 16)]


def _against_trl(n_groups: int, size: int) -> list[Row]:
    import torch

    torch.set_num_threads(1)
    runs = [_Steps(n_groups, size, name, watched) for name, watched in CASES]
    trl = TrlStep(torch.from_numpy(runs[0].rewards).float(), size)
    calls: dict[str, Any] = {run.name: run for run in runs}
    calls["trl"] = trl
    took = medians(calls, repetitions=49, clock=process_time)
    per_step = {name: seconds / STEPS for name, seconds in took.items()}
    line = medians({"log": runs[-1].log}, repetitions=99, clock=process_time)["log"]
    yardstick = "TRL's lines", per_step["trl"]
    rows = []
    for run in runs:
        seconds, what = per_step[run.name], f"{run.name}, {n_groups} groups of {size}"
        target = ("1.0 x", seconds <= per_step["trl"]) if run.monitor else ("", None)
        rows.append(Row(what, seconds, *yardstick, *target))
    watched = rows[-1]
    absolute = watched._replace(what="the same", target="0.3 ms", met=watched.seconds <= 3e-4)
    return [*rows, absolute, Row("the same and a log line", line, *yardstick)]


def _large(n_groups: int, size: int) -> list[Row]:
    run = _Steps(n_groups, size, "avspo", True, steps=1)
    ptp = np.ptp
    calls = {run.name: run, "ptp": lambda: ptp(run.rewards[0].reshape(n_groups, size), axis=1)}
    took = medians(calls, repetitions=29, clock=process_time)
    return [
        Row(
            f"{run.name}, {n_groups:,} groups of {size}",
            took[run.name],
            "np.ptp",
            took["ptp"],
            "20 ms",
            took[run.name] < 0.02,
        )
    ]


CASES = (("grpo", False), ("grpo", True), ("avspo", False), ("avspo", True))


class _Steps:
    """Steps with a remedy, from rewards to advantages, and with a monitor its part of them."""

    def __init__(
        self, n_groups: int, size: int, remedy: str, watched: bool, steps: int = STEPS
    ) -> None:
        draws = np.random.default_rng(0)
        rates = draws.beta(0.5, 0.5, (STEPS, n_groups, 1))
        self.rewards = (draws.random((STEPS, n_groups, size)) < rates).astype(float)
        self.rewards = self.rewards.reshape(STEPS, -1)
        prompts = draws.integers(4 * n_groups, size=(STEPS, n_groups))
        self.prompts = [[f"{prompt:016x}" for prompt in row] for row in prompts.tolist()]
        self.columns = {
            "length": np.full((n_groups, size), 100),
            "truncated": np.zeros((n_groups, size), dtype=bool),
        }
        self.shape = n_groups, size
        self.estimate = bt.estimator(remedy)
        self.monitor = bt.Monitor(total_steps=10**6) if watched else None
        self.name = f"{remedy} and a monitor" if watched else remedy
        self.steps = steps
        self.step = count(1)

    def __call__(self, steps: int | None = None) -> None:
        for at in range(steps or self.steps):
            rewards = self.rewards[at].reshape(self.shape)
            groups = bt.Groups.from_dense(
                rewards, prompt_id=self.prompts[at], **self.columns, **{"reward/a": rewards}
            )
            self.estimate(groups)
            if self.monitor is None:
                continue
            self.monitor.update(groups, step=next(self.step), reading=self.estimate)

    def log(self) -> None:
        """Take one more step and what a log line shows."""
        self(steps=1)
        assert self.monitor is not None
        self.monitor.metrics()


class TrlStep:
    """What TRL 1.16 does between the rewards of a step and its log, with one reward function.

    ``_generate_and_score_completions`` for ``scale_rewards="group"``: advantages, metrics, the
    entries of the completions table. The means that a log line takes are left out.
    """

    def __init__(self, rewards: Any, size: int) -> None:
        import torch

        self.rewards, self.size = rewards, size
        self.weights = torch.ones(1)
        self.metrics: dict[str, list[float]] = defaultdict(list)
        self.logs = {name: deque(maxlen=rewards.shape[1]) for name in ("a", "advantages")}

    def __call__(self) -> None:
        for rewards in self.rewards:
            self._step(rewards[:, None])
        self.metrics.clear()

    def _step(self, matrix: Any) -> None:
        import torch
        from trl.trainer.utils import nanstd

        size = self.size
        unscorable = torch.isnan(matrix).all(dim=1)
        rewards = (matrix * self.weights.to("cpu").unsqueeze(0)).nansum(dim=1)
        rewards[unscorable] = torch.nan
        mean = torch.nanmean(rewards.view(-1, size), dim=1).repeat_interleave(size, dim=0)
        deviation = nanstd(rewards.view(-1, size), dim=1).repeat_interleave(size, dim=0)
        advantages = (rewards - mean) / (deviation + 1e-4)
        is_zero = torch.isclose(deviation, torch.zeros_like(deviation))
        advantages = torch.nan_to_num(advantages, nan=0.0)
        everyone = advantages.clone()
        self.metrics["a/mean"].append(torch.nanmean(matrix[:, 0]).item())
        self.metrics["a/std"].append(nanstd(matrix[:, 0]).item())
        rewards = (matrix * self.weights.to("cpu").unsqueeze(0)).nansum(dim=1)
        rewards[unscorable] = torch.nan
        self.metrics["reward"].append(torch.nanmean(rewards).item())
        self.metrics["reward_std"].append(nanstd(rewards).item())
        self.metrics["zero"].append(is_zero.float().mean().item())
        self.logs["a"].extend(matrix[:, 0].tolist())
        self.logs["advantages"].extend(everyone.tolist())

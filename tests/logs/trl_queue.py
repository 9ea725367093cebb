"""Writes what TRL writes: its queue of completions, as a model in a few lines."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Row = dict[str, Any]


def advantages(totals: np.ndarray, size: int, scale: bool = True) -> np.ndarray:
    """Return TRL's advantages of blocks of `size`, rollouts without a reward excluded."""
    if size == 1:
        return np.zeros(len(totals))
    grouped = totals.reshape(-1, size)
    known = ~np.isnan(grouped)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    mean = np.nansum(grouped, axis=1, keepdims=True) / count
    centred = np.where(known, grouped - mean, 0.0)
    if scale:
        square = (centred**2).sum(axis=1, keepdims=True) / np.maximum(count - 1, 1)
        centred = centred / (np.sqrt(square) + 1e-4)
    return centred.astype(np.float32).astype(float).ravel()


def generation(
    prompts: list[str],
    size: int,
    components: dict[str, np.ndarray],
    weights: dict[str, float],
    *,
    tag: str = "",
    extra: dict[str, list[Any]] | None = None,
    scale: bool = True,
) -> list[Row]:
    """Return the rows of one generation: every prompt `size` times."""
    stacked = np.stack([components[name] * weights[name] for name in components])
    totals = np.where(np.isnan(stacked).all(axis=0), np.nan, np.nansum(stacked, axis=0))
    columns = {
        "prompt": np.repeat(prompts, size).tolist(),
        "completion": [f"{tag}{at}" for at in range(len(totals))],
        **{name: values.tolist() for name, values in components.items()},
        **(extra or {}),
        "advantage": advantages(totals, size, scale).tolist(),
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


@dataclass
class Queue:
    """The queue of one trainer, and the files and the state that it writes."""

    folder: Path
    length: int
    rewards: dict[str, float]
    logging_steps: int = 1
    rows: deque[Row] = field(init=False)
    history: list[Row] = field(default_factory=list)
    pending: list[list[Row]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = deque(maxlen=self.length)

    def generate(self, rows: list[Row]) -> None:
        """Push a training generation."""
        self.rows.extend(rows)
        self.pending.append(rows)

    def log(self, step: int) -> None:
        """Write the completions file and the record of a step."""
        if step % self.logging_steps == 0:
            self.history.append({"step": step, "loss": 0.0, **self._means(self.pending)})
            self.pending = []
            self.dump(step)

    def evaluate(self, step: int, rows: list[Row]) -> None:
        """Push the rows of an evaluation and write the step's file again."""
        self.rows.extend(rows)
        means = self._means([rows])
        record = {f"eval_{name}": value for name, value in means.items()}
        self.history.append({"step": step, "eval_loss": 0.0, **record})
        self.dump(step)

    def dump(self, step: int) -> None:
        """Write what stands in the queue."""
        path = self.folder / "completions" / f"completions_{step:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame([{"step": step, **row} for row in self.rows]).write_parquet(path)

    def save(self, step: int) -> None:
        """Write the trainer state of a checkpoint."""
        state = {"global_step": step, "logging_steps": self.logging_steps}
        path = self.folder / f"checkpoint-{step}" / "trainer_state.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**state, "log_history": self.history}))

    def _means(self, generations: list[list[Row]]) -> Row:
        if not generations:
            return {}
        found: Row = {}
        tables = [
            {n: np.array([row[n] for row in rows]) for n in self.rewards} for rows in generations
        ]
        for name in self.rewards:
            means = [one[name][~np.isnan(one[name])].mean() for one in tables]
            found[f"rewards/{name}/mean"] = float(np.float32(np.mean(means)))
        totals = []
        for one in tables:
            scorable = ~np.isnan(np.stack(list(one.values()))).all(axis=0)
            total = sum(weight * np.nan_to_num(one[name]) for name, weight in self.rewards.items())
            totals.append(total[scorable].mean())
        found["reward"] = float(np.float32(np.mean(totals)))
        return found

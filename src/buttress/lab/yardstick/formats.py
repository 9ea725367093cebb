"""Write a run as TRL, as verl (both layouts) or as generic JSONL would log it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.kinds import Format
from buttress.lab.yardstick.metrics import step_metrics

_VERL = {
    "loss": "actor/pg_loss",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "entropy": "actor/entropy",
    "kl": "actor/kl_loss",
    "reward": "critic/score/mean",
    "completions/mean_length": "response_length/mean",
    "completions/min_length": "response_length/min",
    "completions/max_length": "response_length/max",
    "completions/clipped_ratio": "response_length/clip_ratio",
}


def write(draft: Draft, format: Format, folder: Path) -> None:
    """Write the log of a run into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    {"trl": _trl, "verl": _verl, "verl-v1": _verl_v1, "generic": _generic}[format](draft, folder)


def _trl(draft: Draft, folder: Path) -> None:
    """Completions without a group id, and the trainer's state."""
    import polars as pl

    place = folder / "completions"
    place.mkdir()
    for step in np.unique(draft.steps[draft.kept.any(axis=1)]).tolist():
        rows = np.nonzero(draft.kept & (draft.steps == step)[:, None])
        if not len(rows[0]):
            continue
        table = {
            "step": [step] * len(rows[0]),
            "prompt": draft.prompts[rows[0]].tolist(),
            "completion": draft.texts[rows].tolist(),
            **{f"{name}_reward": values[rows] for name, values in draft.parts.items()},
            "advantage": draft.advantages[rows].astype(np.float32).astype(np.float64),
        }
        path = place / f"completions_{step:05d}.parquet"
        pl.DataFrame(table).fill_nan(None).write_parquet(path)
    lines = [{name: _json(value) for name, value in line.items()} for line in step_metrics(draft)]
    last = int(draft.logged_steps[-1])
    checkpoint = folder / f"checkpoint-{last}"
    checkpoint.mkdir()
    state = {"global_step": last, "max_steps": last, "logging_steps": 1, "log_history": lines}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")


def _verl(draft: Draft, folder: Path) -> None:
    """The older layout: no group id, and what the reward function returned."""
    extra = {f"{name}_reward": values for name, values in draft.parts.items()}
    if len(draft.parts) == 1:
        extra = {}
    if "correct" in draft.shows:
        extra["acc"] = draft.correct
    _verl_dump(draft, folder, extra, uids=False)


def _verl_v1(draft: Draft, folder: Path) -> None:
    """The newer layout: a uid, and the score alone."""
    _verl_dump(draft, folder, {}, uids=True)


def _verl_dump(draft: Draft, folder: Path, extra: dict[str, Any], *, uids: bool) -> None:
    reward, place = draft.reward, folder / "rollouts"
    place.mkdir()
    for step in draft.logged_steps.tolist():
        lines = []
        for group in np.flatnonzero(draft.steps == step).tolist():
            for sample in np.flatnonzero(draft.kept[group]).tolist():
                row = {
                    "input": draft.prompts[group],
                    "output": draft.texts[group, sample],
                    "gts": draft.answers[group],
                    "score": _json(reward[group, sample]),
                    "step": step,
                }
                row |= {name: _json(values[group, sample]) for name, values in extra.items()}
                if uids:
                    row["uid"] = f"{draft.ids[group, sample]:08x}-{step}_{sample}_0"
                lines.append(row)
        if lines:
            _lines(place / f"{step}.jsonl", _ordered(draft, lines, step))
    if "scalars" in draft.shows:
        _lines(folder / "metrics.jsonl", [
            {"step": line["step"], "data": {
                _VERL[name]: _json(value) for name, value in line.items() if name in _VERL
            }} for line in step_metrics(draft)
        ])  # fmt: skip


def _generic(draft: Draft, folder: Path) -> None:
    """One line per rollout under the names of the rollout table, and one line of metrics a step."""
    reward, rows = draft.reward, []
    for group in np.flatnonzero(draft.kept.any(axis=1)).tolist():
        for sample in np.flatnonzero(draft.kept[group]).tolist():
            at = group, sample
            row: dict[str, Any] = {
                "step": int(draft.steps[group]),
                "group": f"g{draft.ids[at]}",
                "prompt": draft.prompts[group],
                "completion": draft.texts[at],
                "reward": _json(reward[at]),
                "length": int(draft.lengths[at]),
                "truncated": not draft.ended[at],
            }
            if len(draft.parts) > 1 and "parts" in draft.shows:
                row |= {f"reward/{name}": _json(one[at]) for name, one in draft.parts.items()}
            if "correct" in draft.shows:
                row["correct"] = _json(draft.correct[at])
            if "advantage" in draft.shows:
                row["advantage"] = float(draft.advantages[at])
            rows.append(row)
    _lines(folder / "rollouts.jsonl", _ordered(draft, rows, 0))
    if "scalars" in draft.shows:
        lines = step_metrics(draft)
        _lines(folder / "metrics.jsonl", [
            {name: _json(value) for name, value in line.items()} for line in lines
        ])  # fmt: skip


def _ordered(draft: Draft, rows: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    if not draft.shuffled:
        return rows
    order = np.random.default_rng(seed).permutation(len(rows))
    return [rows[at] for at in sorted(order.tolist(), key=lambda at: (rows[at]["step"], order[at]))]


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _json(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None

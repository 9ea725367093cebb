"""Small logs for the tests of the readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def jsonl(rows: Iterable[Mapping[str, Any]], **options: Any) -> bytes:
    """Return rows as JSON lines, as Python's json writes them (bare NaN and Infinity)."""
    return "".join(json.dumps(row, **options) + "\n" for row in rows).encode()


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsonl(rows))
    return path


def rollouts(rewards: Mapping[str, list[Any]], step: int = 1) -> list[dict[str, Any]]:
    """Return one row per reward: group -> rewards; every completion its own text."""
    return [
        {
            "step": step,
            "group": group,
            "sample": at,
            "prompt": f"prompt of {group}",
            "completion": f"{group}/{at} at {step}",
            "reward": reward,
        }
        for group, some in rewards.items()
        for at, reward in enumerate(some)
    ]


def verl_row(
    prompt: str, completion: str, score: float, step: int | None = 1, **extra: Any
) -> dict[str, Any]:
    """Return a row of verl's older layout."""
    row = {"input": prompt, "output": completion, "gts": "4", "score": score, "step": step}
    return {key: value for key, value in row.items() if key != "step" or step is not None} | extra

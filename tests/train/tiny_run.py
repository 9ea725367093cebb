"""A training that takes a second: the tiny model of the hook tests, sums of two digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from buttress.train.config import Training, load
from buttress.train.source import Source
from tests.helpers import require
from tests.hooks import tiny

REWARDS = '''
import os


def digits(completions, **_):
    """An even digit counts a half, and so do four characters."""
    even = [any(digit in one for digit in "02468") for one in completions]
    return [0.5 * has + 0.5 * (len(one) > 3) for has, one in zip(even, completions)]


def rare(completions, **_):
    return [float("0" in one or "2" in one) for one in completions]


def failing(completions, trainer_state, **_):
    if os.environ.get("FAIL_AT") == str(trainer_state.global_step + 1):
        raise ValueError("a reward of its own will")
    return digits(completions)


def short(completions, **_):
    return [1.0] * (len(completions) - 1)


def huge(completions, trainer_state, **_):
    size = 1e38 if trainer_state.global_step == 2 else 0.0
    return [size * (at % 2) for at, _ in enumerate(completions)]
'''


def prepare(folder: Path) -> Path:
    """Write model, problems and reward functions into a folder, and return it."""
    tokens = tiny.tokenizer()
    tokens.save_pretrained(folder / "model")
    tiny.model(tokens).save_pretrained(folder / "model")
    rows = [{"problem": prompt, "answer": str(eval(prompt[:-1]))} for prompt in tiny.PROMPTS]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rewards.py").write_text(REWARDS)
    return folder


def values(folder: Path, out: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of a run of 4 steps of 2 groups of 4."""
    trainer = {"max_completion_length": 6, "learning_rate": 1e-3, "save_steps": 2}
    return {
        "model": str(folder / "model"),
        "data": str(folder / "data.jsonl"),
        "reward": f"{folder / 'rewards.py'}:digits",
        "out": str(out),
        "steps": 4,
        "prompts": 2,
        "group_size": 4,
        "seed": 7,
        **more,
        "trainer": trainer | more.get("trainer", {}),
    }


def settings(folder: Path, out: Path, **more: Any) -> tuple[Training, Source]:
    """Return the same as typed settings, and their source."""
    source = Source(values(folder, out, **more))
    return load(source), source


def train(*settings: Any, **options: Any) -> Any:
    """Train in this process; skips the test where TRL is missing."""
    require("trl")
    from buttress.train.run import train as run

    return run(*settings, **options)


def toml(values: dict[str, Any]) -> str:
    """Return settings as TOML: values first, then tables."""
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in plain.items())
    for name, table in values.items():
        if isinstance(table, dict):
            text += f"\n[{name}]\n" + toml(table)
    return text


def weights(out: Path) -> bytes:
    """Return the trained weights as they lie on disk."""
    return (out / "model" / "model.safetensors").read_bytes()


def rollouts(out: Path) -> list[dict[str, Any]]:
    """Return the logged rollouts."""
    return [json.loads(line) for line in (out / "rollouts.jsonl").read_text().splitlines()]

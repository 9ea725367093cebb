"""The columns of the rollout table, and the names that logs have for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from buttress.errors import UsageError

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

COMPONENT = "reward/"

# Canonical name -> other names, most telling first. Every use is said in the report.
ALIASES: dict[str, tuple[str, ...]] = {
    "step": ("global_step", "training_step", "train_step", "iteration"),
    "group": ("group_id", "group_idx", "group_index", "uid", "gid"),
    "sample": ("sample_id", "sample_idx", "sample_index", "traj_idx", "rollout_idx"),
    "prompt_id": ("prompt_idx", "prompt_index", "problem_id", "question_id", "task_id"),
    "prompt": ("prompts", "input", "question", "problem", "query", "input_prompt"),
    "completion": (
        "completions",
        "response",
        "responses",
        "output",
        "output_response",
        "generation",
    ),
    "reward": ("rewards", "score", "scores", "total_reward", "final_reward"),
    "correct": ("is_correct", "acc", "accuracy", "correctness", "success", "solved"),
    "advantage": ("advantages", "adv"),
    "length": (
        "completion_length",
        "response_length",
        "output_length",
        "completion_tokens",
        "num_tokens",
    ),
    "truncated": ("is_truncated", "clipped", "is_clipped"),
}
CANONICAL = tuple(ALIASES)
# A row with one of these is a rollout; `reward` alone may be a metric of a whole step.
IDENTITY = ("group", "sample", "prompt_id", "prompt", "completion", "advantage", "truncated")

# An object with none of these and no component is no rollout.
_TELLING = ("reward", "correct", "advantage", "completion")


def is_telling(name: str) -> bool:
    """Return whether a canonical column marks its row as a rollout."""
    return name in _TELLING or name.startswith(COMPONENT)


def check_map(names: Iterable[str]) -> None:
    """Raise `UsageError` for a name that is no column of the rollout table."""
    for name in names:
        if not isinstance(name, str) or (name not in ALIASES and not name.startswith(COMPONENT)):
            raise UsageError.unknown("column", name, [*CANONICAL, "reward/<name>"])


def resolve(columns: Iterable[str], builder: RolloutBuilder) -> dict[str, str]:
    """Return canonical name -> column for the columns of one file.

    The user's map wins, then the canonical name itself, then the aliases in their order; the
    builder is told which alias was used.

    Examples
    --------
    >>> from buttress.logs.builder import RolloutBuilder
    >>> resolve(["uid", "score", "reward/format"], RolloutBuilder())
    {'group': 'uid', 'reward': 'score', 'reward/format': 'reward/format'}
    """
    there = list(columns)
    found: dict[str, str] = {}
    for name, others in ALIASES.items():
        wanted = builder.options.map.get(name)
        candidates = (name, *others) if wanted is None else (wanted,)
        column = next((one for one in candidates if one in there), None)
        if column is None:
            continue
        found[name] = column
        if column != name and wanted is None:
            builder.infer(f"{name}: read from the column {column}")
    for column in there:
        if column.startswith((COMPONENT, "rewards/")):
            found[COMPONENT + column.partition("/")[2]] = column
    for name, column in builder.options.map.items():
        if column in there:
            found[name] = column
            builder.mapped.add(name)
    builder.columns.update(dict.fromkeys(there))
    return found

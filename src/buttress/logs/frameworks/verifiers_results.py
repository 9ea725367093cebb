"""verifiers before its v1 environments: ``results.jsonl`` of an evaluation, one rollout per line.

To the schema of PrimeIntellect-ai/verifiers at commit a60a606 (``legacy.types.RolloutOutput``,
``legacy.utils.save_utils``). All rollouts of one ``example_id`` are a group. What the rubric's
functions returned stands in ``metrics`` without their weights; those whose name says so are
components of the reward (our reading).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import ALIASES, COMPONENT
from buttress.logs.formats.nested import Nested, Place, RecordFormat, Rollout
from buttress.logs.frameworks.verl import is_component
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows

_REQUIRED = {"example_id", "prompt", "completion", "reward", "metrics"}
CORRECT = ("correct", *ALIASES["correct"], "correct_answer")


class Result(msgspec.Struct):
    """A rollout."""

    example_id: Any
    prompt: Any = None
    completion: Any = None
    reward: Any = None
    error: Any = None
    is_truncated: Any = None
    metrics: dict[str, Any] | None = None
    token_usage: dict[str, Any] | None = None


class VerifiersResults:
    """Reads the rows of evaluations."""

    name: ClassVar[str] = "verifiers"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    file_by_file: ClassVar[bool] = True

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have the columns of results."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the results of a run."""
        records = Nested(builder, RecordFormat("a result of verifiers", Result, _rollouts))
        for path in files:
            records.read(path)


def correct_of(values: Mapping[str, Any], builder: RolloutBuilder) -> dict[str, Any]:
    """Return the column `correct` from rewards and metrics by their names; empty without one."""
    name = next((one for one in CORRECT if values.get(one) is not None), None)
    if name is None:
        return {}
    builder.infer(f"correct: read from {name}")
    return {"correct": values[name]}


def _rollouts(result: Result, place: Place) -> Iterator[Rollout]:
    metrics = result.metrics or {}
    columns = {
        "group": text_of(result.example_id),
        "prompt_id": text_of(result.example_id),
        "prompt": text_of(result.prompt),
        "completion": text_of(result.completion),
        # a rollout that failed was not scored: its reward of 0 is the default
        "reward": None if result.error else result.reward,
        "truncated": result.is_truncated,
        "length": (result.token_usage or {}).get("output_tokens"),
    }
    parts = {COMPONENT + name: one for name, one in metrics.items() if is_component(name)}
    yield Rollout(columns | parts | correct_of(metrics, place.builder), metrics)

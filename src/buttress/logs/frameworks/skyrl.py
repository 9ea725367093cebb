"""SkyRL: ``dumped_evals/global_step_<n>_evals/<data source>.jsonl``, written with its evaluations.

To the schema of NovaSky-AI/SkyRL at commit a956457 (``dump_per_dataset_eval_results``):
input_prompt, output_response, score, stop_reason, env_class, env_extras, data_source; beside them
``aggregated_results.jsonl`` with the metrics. A score is a number or, from environments that
reward tokens, a list whose sum SkyRL reports.

The dump names no groups, though SkyRL compares by uid: rows of one step, data source and prompt
text are read as a group, and that is said. Training batches are dumped as pickles only, without
rewards, see `pickles`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import Nested, Place, RecordFormat, Rollout
from buttress.logs.prose import text_digest, text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan
from buttress.logs.trackers.metric_files import add_metrics, json_rows

_REQUIRED = {"input_prompt", "output_response", "score", "env_class"}
_AGGREGATED = "aggregated_results.jsonl"
_STEP = re.compile(r"global_step_(\d+)")
_BY_TEXT = (
    "the dump names no groups: rows of one step, data source and prompt text were taken as one, so "
    "that a prompt which stands in the data twice is one group of twice the size"
)
_NOTHING = "neither a score nor an output_response, left out"
_SUMMED = "reward: the sum of the scores of a rollout's tokens"


class Row(msgspec.Struct):
    """A rollout of an evaluation."""

    input_prompt: Any = None
    output_response: Any = None
    score: Any = None
    stop_reason: Any = None
    data_source: Any = None


class SkyrlEvaluations:
    """Reads the rollouts of evaluations."""

    name: ClassVar[str] = "skyrl"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have the columns of an evaluation."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def run_of(self, path: Path) -> Path:
        """Return the folder of the run that a file belongs to."""
        return path.parent.parent if _STEP.search(path.parent.name) else path.parent

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the evaluations of a run."""
        records = Nested(builder, RecordFormat("a rollout of SkyRL", Row, _rollouts))
        for path in files:
            records.read(path)
        if builder.rows:
            builder.problems.once("skyrl groups", str(files[0]), 0, _BY_TEXT)


class SkyrlMetrics:
    """Reads the metrics of an evaluation; the step is that of the folder."""

    name: ClassVar[str] = "skyrl"
    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether this is the file of metrics beside the rollouts."""
        rows = first_rows(head)
        return path.name == _AGGREGATED and any(
            name.startswith("eval/") for row in rows for name in row
        )

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        for path in files:
            rows = json_rows(path, builder)
            add_metrics(
                path, ((line, row | {"step": step_of(path)}) for line, row in rows), builder
            )


def step_of(path: Path) -> int:
    """Return the step in the name of an evaluation's folder, 0 for one without training.

    >>> step_of(Path("dumped_evals/global_step_20_evals/openai_gsm8k.jsonl"))
    20
    """
    found = _STEP.search(path.parent.name)
    return int(found[1][:15]) if found else 0


def _rollouts(row: Row, place: Place) -> Iterator[Rollout]:
    if row.score is None and row.output_response is None:
        place.problem(_NOTHING, lost=1)
        return
    prompt = text_of(row.input_prompt)
    source = place.path.name.partition(".")[0] if row.data_source is None else row.data_source
    columns = {
        "step": step_of(place.path),
        # two data sources may share a prompt
        "prompt_id": None if prompt is None else f"{text_of(source)}/{text_digest(prompt)}",
        "prompt": prompt,
        "completion": text_of(row.output_response),
        "reward": _score(row.score, place),
        "truncated": finish.truncated(row.stop_reason),
    }
    others = {"score": columns["reward"]}
    yield Rollout({name: one for name, one in columns.items() if one is not None}, others)


def _score(score: Any, place: Place) -> Any:
    if not isinstance(score, list):
        return score
    if score:
        place.builder.infer(_SUMMED)
    total = sum(map(number_or_nan, score))
    if score and math.isnan(total):
        place.problem("a token's score is not a number; the reward is taken as unknown")
    return total if score else None

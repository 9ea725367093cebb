"""What a log format has to offer, and the ordered list of the formats that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from buttress.groups import Text

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

Kind = Literal["rollouts", "scalars"]

# Texts of the named rows (counted from 1, ascending) of one file, in that order.
Fetch = Callable[[Path, Sequence[int]], list[Text]]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user said about a log.

    Attributes
    ----------
    format
        Name of the format, or None to let each format sniff.
    map
        Canonical column name -> name of the column in the log; wins over every alias.
    group_size
        Configured rollouts per prompt. Where the log names no groups, every run of that many
        consecutive rows of a step is one.
    run
        Name or id of the run to read from a tracker's store that holds several.
    """

    format: str | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    group_size: int | None = None
    run: str | None = None


class Reader(Protocol):
    """One log format.

    Attributes
    ----------
    name
        The format's name, as ``--format`` takes it and the report shows it. Readers of one format
        may share a name (rollouts and metrics; JSONL and Parquet).
    kind
        ``rollouts``, or ``scalars`` for a file that holds metrics only.
    suffixes
        File name endings, compression left out (``.jsonl`` also stands for ``.jsonl.gz``).

    A reader of files without a suffix of their own may have ``knows(path)``, which tells them by
    name or place.

    A reader whose runs have a folder for each step has a method ``run_of(path)`` that returns the
    folder of the run.

    A reader with ``file_by_file = True`` needs no file to understand another; large logs are then
    read by several processes.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    suffixes: ClassVar[tuple[str, ...]]

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether this is the format, from the path and the first decompressed bytes.

        `head` holds at least one whole line of a text file. Never raises.
        """
        ...

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Hand everything in the files to the builder; what is broken becomes a problem there."""
        ...


# In this order: the first that recognises a file reads it. Modules load when first needed.
_READERS = (
    "buttress.logs.trackers.wandb_file:WandbFiles",
    "buttress.logs.trackers.tensorboard_events:TensorboardEvents",
    "buttress.logs.trackers.mlflow_store:MlflowDatabase",
    "buttress.logs.trackers.mlflow_store:MlflowFiles",
    "buttress.logs.trackers.trackio_store:TrackioDatabase",
    "buttress.logs.trackers.trackio_store:TrackioTables",
    "buttress.logs.trackers.trainer_jsonl:PrimeMetrics",
    "buttress.logs.trackers.trainer_jsonl:SwiftMetrics",
    "buttress.logs.trackers.trainer_jsonl:TinkerMetrics",
    "buttress.logs.frameworks.trl:TrlCompletions",
    "buttress.logs.trackers.trainer_state:TrainerState",
    "buttress.logs.frameworks.verl:VerlRollouts",
    "buttress.logs.frameworks.prime_rl:PrimeRollouts",
    "buttress.logs.frameworks.verifiers:VerifiersTraces",
    "buttress.logs.frameworks.verifiers_results:VerifiersResults",
    "buttress.logs.frameworks.nemo_rl:NemoRollouts",
    "buttress.logs.frameworks.areal:ArealRollouts",
    "buttress.logs.frameworks.skyrl:SkyrlEvaluations",
    "buttress.logs.frameworks.skyrl:SkyrlMetrics",
    "buttress.logs.frameworks.inspect_ai:InspectLogs",
    "buttress.logs.trackers.metric_files:VerlMetrics",
    "buttress.logs.frameworks.swift:SwiftCompletions",
    "buttress.logs.frameworks.open_instruct:OpenInstructRollouts",
    "buttress.logs.frameworks.roll:RollRollouts",
    "buttress.logs.frameworks.rllm:RllmEpisodes",
    "buttress.logs.frameworks.tinker:TinkerRollouts",
    "buttress.logs.generic:GenericRollouts",
    "buttress.logs.trackers.metric_files:GenericMetrics",
    "buttress.logs.formats.tables:TableRollouts",
    "buttress.logs.formats.tables:TableMetrics",
)


def readers() -> Iterator[Reader]:
    """Yield one reader of each kind of file, most specific first."""
    for place in _READERS:
        module, name = place.split(":")
        yield getattr(import_module(module), name)()

"""The JSONL files that trainers keep beside a tracker: prime-rl, ms-swift, tinker-cookbook.

A line is a step's metrics under flat names. verl's ``file`` logger is read by `metric_files`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from buttress.logs.builder import RolloutBuilder
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan
from buttress.logs.trackers.metric_files import add_metrics, json_rows

_HISTORY = "log_history"  # in ms-swift's last line, which repeats the lines before it
_PRIME = ("train/", "eval/", "optim/", "loss/", "entropy/", "perf/", "time/", "inference/")


class _MetricLines:
    """A JSONL file of metrics."""

    kind: ClassVar[Kind] = "scalars"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the metrics of a run."""
        for path in files:
            rows = json_rows(path, builder)
            add_metrics(path, ((at, row) for at, row in rows if _HISTORY not in row), builder)


class PrimeMetrics(_MetricLines):
    """Reads prime-rl's ``metrics.jsonl``: several lines a step, by trainer and orchestrator."""

    name: ClassVar[str] = "prime-rl"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have a step, a time and metrics under prime-rl's names."""
        rows = first_rows(head)
        return any(
            number_or_nan(row.get("step")) >= 0
            and number_or_nan(row.get("time")) > 1e9
            and any(name.startswith(_PRIME) for name in row)
            for row in rows
        )


class SwiftMetrics(_MetricLines):
    """Reads ms-swift's ``logging.jsonl``."""

    name: ClassVar[str] = "ms-swift"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows say how far the run is, as ms-swift does."""
        return any("global_step/max_steps" in row for row in first_rows(head))


class TinkerMetrics(_MetricLines):
    """Reads tinker-cookbook's ``metrics.jsonl``."""

    name: ClassVar[str] = "tinker"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have tinker-cookbook's progress."""
        return any({"step", "progress/done_frac"} <= row.keys() for row in first_rows(head))

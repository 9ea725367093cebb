"""TRL: ``completions/completions_<step>.parquet``, as `GRPOTrainer` writes it since 0.28.

A file names neither its groups nor the reward. What is inferred, and how, is said in the report.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats import parquet
from buttress.logs.frameworks.trl.columns import EXTRAS, OURS, Columns, hand_over
from buttress.logs.frameworks.trl.files import FILE, TEXTS, Dump, Loader
from buttress.logs.frameworks.trl.groups import group_size
from buttress.logs.frameworks.trl.stream import Stream, lost_interval, training_rows
from buttress.logs.frameworks.trl.weights import rewards
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.trackers import trainer_state
from buttress.logs.trackers.trainer_state import TrainerLog


class TrlCompletions:
    """Reads the completions of one or more runs, with the trainer states beside them."""

    name: ClassVar[str] = "trl"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the name is TRL's, or else the columns and their order are."""
        if FILE.search(path.name):
            return True
        names = parquet.columns_of(path) if head.startswith(parquet.MAGIC) else []
        given = {"reward", "group", "sample"}.intersection(names)
        return tuple(names[:3]) == ("step", *TEXTS) and names[-1] == "advantage" and not given

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Hand over every training rollout once."""
        folders: dict[Path, list[Path]] = {}
        for path in files:
            folders.setdefault(path.parent, []).append(path)
        if len(folders) > 1:
            shown = ", ".join(str(folder.parent) for folder in sorted(folders)[:3])
            message = (
                f"{len(folders)} runs were read together as one ({shown}, ...): every number is an "
                "average over them; give each run by itself, or use `buttress compare`"
            )
            builder.problem(os.path.commonpath(folders), 0, message)
        sizes = set()
        for number, folder in enumerate(sorted(folders)):
            prefix = f"{number}." if len(folders) > 1 else ""
            sizes.add(_read_run(sorted(folders[folder]), prefix, builder, options))
        if len(sizes) == 1:
            builder.note(group_size=sizes.pop())


def _read_run(
    files: Sequence[Path], prefix: str, builder: RolloutBuilder, options: ReadOptions
) -> int | None:
    """Read the files of one folder; return the group size, None where nothing tells it."""
    loader = Loader(builder, options.map.get("group"), EXTRAS["group"])
    dumps = [dump for path in files for dump in loader.load(path)]
    dumps.sort(key=lambda dump: dump.step)
    log = _log(files[0], builder)
    stream = training_rows(dumps, log)
    _tell(stream, lost_interval({dump.step for dump in dumps}, stream, log), builder)
    named = all(dump.group is not None for dump in stream.dumps)
    size = options.group_size or _inferred_size(stream.dumps, builder, silent=named)
    names = tuple(name for name in loader.floats if not name.startswith(OURS))
    found = rewards(stream.dumps, names, log, size)
    hand_over(stream.dumps, Columns.of(stream.dumps, found, builder), size, loader, prefix)
    return size


def _log(file: Path, builder: RolloutBuilder) -> TrainerLog | None:
    """Return the history of the run that wrote a file, and hand its metrics over."""
    log = trainer_state.latest(trainer_state.beside(file), builder)
    if log is not None:
        trainer_state.add_metrics(log, builder)
        builder.infer(f"metrics: from {log.path}, beside the completions")
    return log


def _inferred_size(dumps: Sequence[Dump], builder: RolloutBuilder, *, silent: bool) -> int | None:
    inferred = group_size(dumps)
    if inferred is None:
        return None
    if not silent:  # a log that names its groups needs no such guess
        builder.infer(f"groups: every {inferred.size} consecutive rows of a step, {inferred.found}")
    return inferred.size


def _tell(stream: Stream, lost: int | None, builder: RolloutBuilder) -> None:
    """Say what was left out and what is missing."""
    if stream.repeated:
        builder.note(repeated=builder.facts.repeated + stream.repeated)
        builder.infer(
            f"{stream.repeated} rollouts stand in more than one file (TRL writes a generation "
            "again at every step that reuses it); each was counted once"
        )
    if stream.evaluation:
        builder.infer(f"{stream.evaluation} rollouts of evaluations were left out")
    if lost:
        builder.note(logged_every=lost)
        builder.infer(
            f"rollouts were written once in {lost} steps; logging_steps=1 keeps all of them"
        )
    for dump in stream.unclear:
        message = (
            f"step {dump.step} mixes rollouts of training and evaluation and nothing tells them "
            "apart; left out"
        )
        builder.problem(dump.file, int(dump.row[0]), message, lost=len(dump))

"""prime-rl: ``rollouts/step_<n>/{train,eval}/{all,effective}/traces.jsonl``, verifiers' episodes.

To the layout of PrimeIntellect-ai/prime-rl at commit 559b447 (``monitors.file.FileMonitor``);
the episodes of the fixture are written by verifiers 0.4.0 itself.

``all`` holds every episode as it arrives, before advantages exist; ``effective`` what was shipped
to the trainer, with advantages (rounded to four decimals since verifiers 0.4) and without traces
whose advantages are all zero, unless ``train.filter_zero_advantages`` is off. So rollouts are read
from ``all`` and advantages from ``effective``; ``effective`` alone is a filtered log.

A step is that at which the episode's group was dispatched: the folder of ``all`` is the step at
which an episode arrived, and the episodes of one group arrive at different times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.lines import blocks
from buttress.logs.formats.nested import FAULTS, Nested, Place, RecordFormat, Rollout
from buttress.logs.frameworks import verifiers
from buttress.logs.frameworks.verifiers import Episode, advantage_of, rollouts_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows

_PLACE = re.compile(r"step_(\d+)/(train|eval)/(all|effective)/[^/]+$")
_STEP = "step: that at which prime-rl dispatched the group"
_JOINED = "advantage: from the effective traces of the same rollouts"
_EVALUATIONS = "episodes of evaluations, left out; name them alone to read them"
_FILTERED = (
    "filtered: effective traces alone, and none with zero advantage; prime-rl leaves those out "
    "unless train.filter_zero_advantages is off. Read the traces under `all` to see every group"
)

Subset = Literal["all", "effective", ""]


@dataclass
class _Shipped:
    """Advantages of the traces that went to the trainer, and whether one of them was zero."""

    advantages: dict[int | str, float] = field(default_factory=dict)
    zero: bool = False


class PrimeRollouts:
    """Reads the episodes of a training run; of its evaluations where they are given alone."""

    name: ClassVar[str] = "prime-rl"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows are episodes of a training run."""
        episodes = [row for row in first_rows(head) if verifiers.is_episode(row)]
        runs = [run for row in episodes if isinstance(run := row.get("run"), dict)]
        training = any(run.get("type") == "train" for run in runs)
        return training or bool(episodes and _PLACE.search(path.as_posix()))

    def run_of(self, path: Path) -> Path:
        """Return the folder of the run that a file belongs to."""
        return path.parents[3] if _PLACE.search(path.as_posix()) else path.parent

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the episodes of a run."""
        files = _training(files, builder)
        by_subset: dict[Subset, list[Path]] = {"all": [], "effective": [], "": []}
        for path in files:
            by_subset[_subset(path)].append(path)
        effective, shipped = by_subset["effective"], _Shipped()
        if by_subset["all"]:
            for path in effective:
                _collect(path, shipped, builder)
            effective = []
        rollouts = partial(_rollouts, shipped=shipped)
        records = Nested(builder, RecordFormat("an episode", Episode, rollouts))
        for path in [*by_subset["all"], *effective, *by_subset[""]]:
            records.read(path)
        if shipped.advantages:
            builder.infer(_JOINED)
        if effective and not shipped.zero:
            builder.note(filtered=True)
            builder.infer(_FILTERED)


def _subset(path: Path) -> Subset:
    found = _PLACE.search(path.as_posix())
    return found[3] if found else ""  # type: ignore[return-value]


def _kind(path: Path) -> str:
    found = _PLACE.search(path.as_posix())
    return found[2] if found else ""


def _training(files: Sequence[Path], builder: RolloutBuilder) -> list[Path]:
    """Return the files without those of evaluations, if there are others."""
    left_out = [path for path in files if _kind(path) == "eval"]
    if not left_out or len(left_out) == len(files):
        return list(files)
    more = f" ({len(left_out)} files)" if len(left_out) > 1 else ""
    builder.problem(left_out[0], 0, _EVALUATIONS + more)
    return [path for path in files if path not in set(left_out)]


def _collect(path: Path, shipped: _Shipped, builder: RolloutBuilder) -> None:
    """Remember the advantages of a file of effective traces."""
    form = RecordFormat("an episode", Episode, rollouts_of)
    for block in blocks(path, builder):
        for number, line in block.lines():
            try:
                episode = form.record(line)
            except FAULTS as fault:
                kind = "not an episode"
                builder.problem(path, number, f"{kind}: {fault}", kind=kind)
                continue
            for trace in episode.traces:
                advantage = advantage_of(trace, builder)
                if trace.id is not None and advantage is not None:
                    shipped.advantages[_short(trace.id)] = advantage


def _short(identity: str) -> int | str:
    """Return 60 bits of a hexadecimal id, which take less memory and are as good as all."""
    try:
        return int(identity[:15], 16)
    except ValueError:
        return identity


def _rollouts(episode: Episode, place: Place, *, shipped: _Shipped) -> Iterator[Rollout]:
    """Yield the rollouts of an episode with their step and advantage."""
    trained = [trace for trace in episode.traces if trace.agent.trainable is not False]
    rollouts = list(rollouts_of(episode, place))
    for trace, rollout in zip(trained, rollouts, strict=True):
        columns = rollout.columns
        if "step" in columns:
            place.builder.infer(_STEP)
        elif found := _PLACE.search(place.path.as_posix()):
            columns["step"] = int(found[1])
        advantage = shipped.advantages.get(_short(trace.id or ""))
        if advantage is not None:
            columns["advantage"] = advantage
        shipped.zero |= columns.get("advantage") == 0
        yield rollout

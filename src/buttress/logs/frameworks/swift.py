"""ms-swift's ``completions.jsonl``: one line per log step, a list in each column.

Columns: step (text), prompt, completion, one per reward function, advantages, then what else the
trainer gathered (solution, num_turns, entropy); the Megatron backend writes ``gen_step`` in place
of step. The fixtures were written by ms-swift 4.6.0 itself; Megatron's line is to the schema of
modelscope/ms-swift at commit 3602360 (``megatron/trainers/grpo_trainer._build_log_table``).

A line names neither its groups nor the reward. ``args.json``, which ms-swift writes beside it,
tells the group size, the weights and whether tied groups were sampled again; ``logging.jsonl``
tells the means. Without them both are inferred as for TRL, whose trainer ms-swift extends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.decode import any_json
from buttress.logs.files import whole
from buttress.logs.formats.nested import FAULTS
from buttress.logs.formats.wide import Row, listed, steps_of, wide_texts
from buttress.logs.frameworks.swift_lines import ADVANTAGE, STEPS, Generations, Lines, grouped
from buttress.logs.frameworks.trl.columns import Columns, hand_over
from buttress.logs.frameworks.trl.files import Dump, Loader
from buttress.logs.frameworks.trl.groups import group_size
from buttress.logs.frameworks.trl.stream import Stream, lost_interval
from buttress.logs.frameworks.trl.weights import Rewards, rewards
from buttress.logs.metrics import step_of
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan
from buttress.logs.trackers.trainer_state import TrainerLog

_STARTS = tuple(f'{{"{name}": ['.encode() for name in STEPS)
_LARGEST = 1 << 24  # bytes of an args.json
_LINE = {"prompt", "completion", ADVANTAGE}
_UNNAMED = (
    "neither the lines nor an args.json beside them name the groups: {}; keep args.json, or give "
    "--group-size"
)
_SCORELESS = (
    "{} rollouts that no reward function scored are unscorable here; ms-swift counts them as 0"
)


class SwiftCompletions:
    """Reads the completions of one or more runs."""

    name: ClassVar[str] = "ms-swift"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    companions: ClassVar[tuple[str, ...]] = ("args.json",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether lines hold lists of steps, prompts and completions."""
        # of a long line the head may hold the first columns only
        if head.startswith(_STARTS) and b"\n" not in head:
            return path.name.startswith("completions")
        return any(
            row.keys() >= _LINE and isinstance(row["completion"], list) and _step(row)
            for row in first_rows(head)
        )

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Hand over every training rollout once."""
        sizes = set()
        for number, path in enumerate(files):
            sizes.add(_read_run(path, f"{number}." if len(files) > 1 else "", builder, options))
        if len(files) > 1:
            message = (
                f"{len(files)} runs were read together as one: every number is an average over "
                "them; give each run by itself, or use `buttress compare`"
            )
            builder.problem(files[0], 0, message)
        if len(sizes) == 1:
            builder.note(group_size=sizes.pop())


def _step(row: Row) -> bool:
    return any(isinstance(row.get(name), list) for name in STEPS)


def _read_run(path: Path, prefix: str, builder: RolloutBuilder, options: ReadOptions) -> int | None:
    """Read one file; return the group size, None where nothing tells it."""
    loader = Loader(builder)
    log, settings = _log(path), _settings(path, builder)
    found = Generations.of(Lines(loader).read(path), log)
    if not found.dumps:
        builder.problem(path, 0, "no rollouts of a training in it")
        return None
    _tell(found, log, builder)
    size = options.group_size or _configured(settings, path, builder)
    size = size or _inferred(found.dumps, path, builder)
    names = tuple(loader.floats)
    summed = _weighted(names, settings, path) or rewards(found.dumps, names, log, size)
    if settings.get("dynamic_sample") is True:
        builder.note(filtered=True)
        builder.infer(f"filtered: {path.parent / 'args.json'} has dynamic_sample on")
    dumps = found.dumps
    if size:
        builder.note(grouped_by="position")
        dumps = grouped(dumps, size, loader, prefix)
    columns = Columns.of(dumps, summed, builder)
    _tell_scoreless(dumps, summed, builder)
    hand_over(dumps, columns, size, loader, prefix, wide_texts(_texts))
    return size


def _texts(row: Row) -> list[Text]:
    completions = listed(row, "completion")
    prompts = listed(row, "prompt")
    prompts = prompts if len(prompts) == len(completions) else [None] * len(completions)
    return [
        Text(text_of(prompt) or "", text_of(completion) or "")
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def _settings(path: Path, builder: RolloutBuilder) -> Mapping[str, Any]:
    """Return the arguments of the run, none where there is no file of them."""
    beside = path.parent / "args.json"
    if not beside.is_file():
        return {}
    try:
        found = any_json(whole(beside, _LARGEST))
    except (OSError, *FAULTS) as fault:
        builder.problem(beside, 0, f"cannot be read: {fault}")
        return {}
    return found if isinstance(found, dict) else {}


def _log(path: Path) -> TrainerLog | None:
    """Return the metrics beside the completions; they are read for themselves elsewhere."""
    beside = path.parent / "logging.jsonl"
    if not beside.is_file():
        return None
    rows = ((step_of(row), row) for _, row in steps_of(beside, RolloutBuilder()))
    records = tuple(row | {"step": step} for step, row in rows if step is not None)
    return TrainerLog(beside, records)


def _configured(settings: Mapping[str, Any], path: Path, builder: RolloutBuilder) -> int | None:
    size = number_or_nan(settings.get("num_generations"))
    if not 2 <= size < 1 << 31 or size != int(size):
        return None
    where = path.parent / "args.json"
    builder.infer(f"groups: every {size:g} consecutive rows of a step, num_generations of {where}")
    return int(size)


def _inferred(dumps: Sequence[Dump], path: Path, builder: RolloutBuilder) -> int | None:
    found = group_size(dumps)
    told = (
        f"every {found.size} consecutive rows of a step were taken, {found.found}"
        if found
        else "and equal prompts do not stand together either, so rows of one prompt were taken"
    )
    builder.problem(path, 0, _UNNAMED.format(told))
    return found.size if found else None


def _weighted(names: tuple[str, ...], settings: Mapping[str, Any], path: Path) -> Rewards | None:
    """Return the reward functions with the weights of the arguments, None where these do not say.

    Without weights ms-swift takes 1.
    """
    if "reward_weights" not in settings:
        return None
    given = settings["reward_weights"]
    weights = [number_or_nan(one) for one in given] if isinstance(given, list) else []
    weights = weights or [1.0] * len(names)
    if len(weights) != len(names) or not np.isfinite(weights).all() or not names:
        return None
    return Rewards(names, tuple(weights), f"the weights of {path.parent / 'args.json'}")


def _tell(found: Generations, log: TrainerLog | None, builder: RolloutBuilder) -> None:
    """Say what was left out and what is missing."""
    if found.repeated:
        builder.note(repeated=builder.facts.repeated + found.repeated)
        builder.infer(
            f"{found.repeated} rollouts stand in more than one line (ms-swift writes a generation "
            "again at every step that reuses it); each was counted once"
        )
    if found.evaluation:
        builder.infer(f"{found.evaluation} rollouts of evaluations were left out")
    if found.restarts:
        builder.infer(f"the steps go back {found.restarts} times, as after a restart; all count")
    stream = Stream(found.dumps, found.repeated, found.evaluation)
    lost = lost_interval({dump.step for dump in found.dumps}, stream, log)
    if lost and not found.repeated:
        builder.note(logged_every=lost)
        builder.infer(
            f"rollouts were written once in {lost} steps; logging_steps=1 keeps all of them"
        )


def _tell_scoreless(dumps: Sequence[Dump], summed: Rewards, builder: RolloutBuilder) -> None:
    if not summed.names:
        return
    count = 0
    for dump in dumps:
        parts = [dump.numbers[name] for name in summed.names if name in dump.numbers]
        count += int(np.isnan(parts).all(axis=0).sum()) if parts else len(dump)
    if count:
        builder.infer(_SCORELESS.format(count))

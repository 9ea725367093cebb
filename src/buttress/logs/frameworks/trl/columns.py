"""From TRL's columns to those of the rollout table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.groups.identity import codes_of
from buttress.logs.builder import Coded, RolloutBuilder
from buttress.logs.columns import COMPONENT
from buttress.logs.formats import parquet
from buttress.logs.frameworks.trl.evidence import components
from buttress.logs.frameworks.trl.files import FIXED, TEXTS, Dump, Loader
from buttress.logs.frameworks.trl.groups import blocks
from buttress.logs.frameworks.trl.weights import Rewards, correctness, total
from buttress.logs.reader import Fetch

# Columns that reward functions may log with `log_extra`, and that our own hook adds.
EXTRAS: dict[str, tuple[str, ...]] = {
    "group": ("buttress_group", "group", "group_id", "group_index"),
    "length": ("buttress_length", "length", "completion_length"),
    "truncated": ("buttress_truncated", "truncated", "is_truncated"),
    "correct": ("correct", "is_correct"),
    "reward": ("buttress_reward",),
}
OURS = "buttress_"  # what our hook adds is never a reward function


class Columns(NamedTuple):
    """Where the rollout table's columns come from.

    Attributes
    ----------
    single
        Canonical name -> the column of the file that holds it.
    rewards
        What the reward is summed from, unless `single` names it.
    """

    single: Mapping[str, str]
    rewards: Rewards

    @classmethod
    def of(cls, dumps: Sequence[Dump], rewards: Rewards, builder: RolloutBuilder) -> Columns:
        """Return the columns by the user's map, the known extras, and the reward functions."""
        there = dict.fromkeys(name for dump in dumps for name in dump.numbers)
        single = {f"{COMPONENT}{name}": name for name in rewards.names}
        single["advantage"] = "advantage"
        for canonical, names in EXTRAS.items():
            extra = next((one for one in names if one in there and one not in rewards.names), None)
            if extra is not None and canonical != "group":
                single[canonical] = extra
        single |= dict(_mapped(there, dumps, builder))
        if "correct" not in single:
            solved = correctness(rewards.names, dumps)
            if solved is not None:
                single["correct"] = solved
                builder.infer(f"correct: the reward function {solved}, by its name and range")
        if "reward" not in single and dumps:
            builder.infer(f"reward: {_sum(rewards)}")
        return cls(single, rewards)

    def values(self, dump: Dump) -> dict[str, NDArray[np.float64]]:
        """Return the numeric columns of a dump."""
        found = {
            canonical: dump.numbers[name]
            for canonical, name in self.single.items()
            if name in dump.numbers
        }
        if "reward" not in self.single and self.rewards.names:
            summands = components(dump, self.rewards.names)
            found["reward"] = total(summands, self.rewards.weights)
        return found

    @property
    def used(self) -> set[str]:
        """The columns of the file that any of this comes from."""
        return {*self.single.values(), *self.rewards.names}


def hand_over(
    dumps: Sequence[Dump],
    columns: Columns,
    size: int | None,
    loader: Loader,
    prefix: str,
    fetch: Fetch | None = None,
) -> None:
    """Give the rows to the builder, grouped by the log's own ids, else by blocks of `size`.

    `fetch` reads texts back where the files are no Parquet.
    """
    builder, files = loader.builder, {}
    fetch = fetch or partial(parquet.texts, names=TEXTS)
    if size and any(dump.group is None for dump in dumps):
        builder.note(grouped_by="position")
    _tell_strange(dumps, columns, loader)
    for dump in dumps:
        if dump.file not in files:
            files[dump.file] = builder.open(dump.file, fetch)
        whole = _without_torn(dump, size, builder)
        table = columns.values(whole) | _identities(whole, size, loader, prefix)
        builder.add(files[dump.file], whole.row, table)


def _tell_strange(dumps: Sequence[Dump], columns: Columns, loader: Loader) -> None:
    """Say which values, and which whole columns, are no numbers."""
    for (path, name), count in loader.strange.items():
        if count and name in columns.used:
            message = f"{count} values of {name} are no numbers; taken as unknown"
            loader.builder.problem(path, 0, message)
    for name in ("advantage", *columns.rewards.names):
        without = list(dict.fromkeys(dump.file for dump in dumps if name not in dump.numbers))
        if without:
            more = f", nor in {len(without) - 1} other files" if without[1:] else ""
            message = f"no column {name} of numbers in this file{more}; taken as unknown"
            loader.builder.problem(without[0], 0, message)


def _identities(dump: Dump, size: int | None, loader: Loader, prefix: str) -> dict[str, Any]:
    prompt, prompts = codes_of(dump.prompt)
    found = {
        "step": dump.step,
        "prompt_id": Coded(prompt, [loader.prompts[one] for one in prompts.tolist()]),
        "completion": dump.completion.view(np.int64),
    }
    if dump.group is not None:
        group, groups = codes_of(dump.group)
        found["group"] = Coded(group, [prefix + loader.groups[one] for one in groups.tolist()])
    elif size:
        number = blocks(dump, size)
        labels = [f"{prefix}{one}" for one in range(int(number.max(initial=-1)) + 1)]
        found["group"] = Coded(number, labels)
    return found


def _without_torn(dump: Dump, size: int | None, builder: RolloutBuilder) -> Dump:
    """Return a dump without the rest of a group whose first rows were pushed out of the log."""
    if dump.group is not None or not size:
        return dump
    torn = int((blocks(dump, size) < 0).sum())
    if not torn:
        return dump
    message = f"the first {torn} rows are the rest of a group that an evaluation pushed out"
    builder.problem(dump.file, int(dump.row[0]), f"{message}; left out", lost=torn)
    return dump.rows(torn, len(dump), headless=False)


def _mapped(
    there: Mapping[str, None], dumps: Sequence[Dump], builder: RolloutBuilder
) -> Iterator[tuple[str, str]]:
    """Yield what the user mapped; a problem for what TRL has its own column for."""
    builder.columns.update(there)
    grouped = any(dump.group is not None for dump in dumps)
    for canonical, name in builder.options.map.items():
        if canonical in (*FIXED, "prompt_id") and dumps:
            builder.mapped.add(canonical)
            message = (
                f"{canonical} is the trainer's own column; --map {canonical}={name} was ignored"
            )
            builder.problems.once((canonical, name), str(dumps[0].file), 0, message)
        elif canonical == "group" and grouped:
            builder.mapped.add(canonical)
        elif name in there:
            builder.mapped.add(canonical)
            yield canonical, name


def _sum(rewards: Rewards) -> str:
    """Return how the reward is made, for the report."""
    names = rewards.names
    if len(names) < 2:
        return f"the only reward function, {names[0]}" if names else rewards.how
    if set(rewards.weights) == {1.0}:
        return f"{' + '.join(names)}, with {rewards.how}"
    terms = (f"{weight:g} {name}" for name, weight in zip(names, rewards.weights, strict=True))
    return f"{' + '.join(terms)}, {rewards.how}"

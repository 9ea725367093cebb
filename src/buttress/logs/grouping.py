"""Which rows did the trainer compare? From collected rows to `Groups`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from buttress.groups import Groups
from buttress.groups.build import object_array, offsets_of, sample_index
from buttress.logs.prose import Interned

if TYPE_CHECKING:
    from buttress.logs.builder import RolloutBuilder

Rows = dict[str, NDArray[Any]]

_BY_PROMPT = "groups: rows of one step and one {} (the log names no groups)"
_BY_POSITION = "groups: every {} consecutive rows of a step (the log names no groups)"
_SIZE_UNUSED = (
    "the group size {} was not used to form groups, since the log names its groups; it only says "
    "how many rollouts a whole group has"
)
_UNGROUPED = (
    "{} rows name neither a group nor a prompt, so nothing says which rollouts were compared: "
    "name the column with --map group=COLUMN, or give --group-size N if the rows of a group "
    "stand together"
)


def grouped(rows: Rows, interned: Mapping[str, Interned], builder: RolloutBuilder) -> Groups:
    """Return the rows as groups of one (step, group) each, in order of step and appearance."""
    if not rows:
        return Groups.from_flat([], [])
    n_rows = len(rows["row"])
    step = rows.pop("step", np.zeros(n_rows, dtype=np.int64))
    prompt, prompt_labels = _prompts(rows, interned)
    identity, labels = _identities(rows, step, prompt, prompt_labels, interned, builder)
    order, offsets = _arranged(step, identity, rows.get("sample"))
    first = order[offsets[:-1]]
    reward = rows.pop("reward", None)
    given, text = rows.pop("prompt_id", None), rows.pop("prompt", None)
    rows.pop("group", None)
    if len(prompt_labels):
        rows["prompt"] = prompt
    if given is not None and text is not None and text is not prompt:
        rows["prompt_text"] = text  # tells one prompt under several ids
    in_order = bool((order[1:] > order[:-1]).all())
    for name in list(rows):
        rows[name] = rows[name] if in_order else rows[name][order]
    values = np.full(n_rows, np.nan) if reward is None else reward
    return Groups(
        values=values if in_order else values[order],
        offsets=offsets,
        order=order,
        step=step[first],
        group_id=labels[identity[first]],
        prompt=prompt[first].astype(np.int64),
        prompt_labels=object_array(prompt_labels),
        columns=rows,
    )


def _prompts(rows: Rows, interned: Mapping[str, Interned]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a prompt code per row and the labels: the given identity, else the text's hash."""
    given = rows.get("prompt_id")
    text = rows.get("prompt")
    if given is None and text is None:
        return np.full(len(rows["row"]), -1, dtype=np.int64), []
    if given is None or not interned["prompt_id"].labels:
        return text if text is not None else given, interned["prompt"].labels
    names = interned["prompt_id"].labels
    if text is None or (given >= 0).all():
        return given, names
    codes = np.where(given >= 0, given, np.where(text >= 0, text + len(names), -1))
    return codes, names + interned["prompt"].labels


def _identities(
    rows: Rows,
    step: NDArray[np.int64],
    prompt: NDArray[np.int64],
    prompt_labels: list[str],
    interned: Mapping[str, Interned],
    builder: RolloutBuilder,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return what tells the groups of one step apart, per row, and the label of each code."""
    group = rows.get("group")
    names = interned["group"].labels
    size = builder.facts.group_size
    if not names and size and (builder.options.group_size or _positional(builder)):
        builder.note(grouped_by="position")
        builder.infer(_BY_POSITION.format(size))
        identity = _blocks(rows["file"], step, rows["row"], size)
        return identity, np.arange(int(identity.max()) + 1)
    if group is None:
        group = np.full(len(step), -1, dtype=np.int64)
    if builder.options.group_size and names and not _positional(builder):
        builder.problem("", 0, _SIZE_UNUSED.format(builder.options.group_size))
    identity = group.astype(np.int64)
    by_prompt = (group < 0) & (prompt >= 0)
    identity[by_prompt] = prompt[by_prompt] + len(names)
    alone = np.flatnonzero(identity < 0)
    identity[alone] = np.arange(len(alone)) + len(names) + len(prompt_labels)
    _say(builder, by_prompt, len(alone), named=bool((group >= 0).any()), given="prompt_id" in rows)
    if (group >= 0).all() and _is_counter(names):
        return identity, np.array(names, dtype=np.int64)
    labels = [*names, *prompt_labels, *(f"row {one + 1}" for one in alone.tolist())]
    return identity, object_array(labels)


def _is_counter(names: list[str]) -> bool:
    """Return whether every id is a whole number, as of a trainer that counts its groups."""
    return all(name.isdecimal() and len(name) < 19 and str(int(name)) == name for name in names)


def _positional(builder: RolloutBuilder) -> bool:
    return builder.facts.grouped_by == "position"


def _say(
    builder: RolloutBuilder, by_prompt: NDArray[np.bool_], alone: int, *, named: bool, given: bool
) -> None:
    if by_prompt.any():
        builder.infer(_BY_PROMPT.format("prompt_id" if given else "prompt"))
    if alone:
        builder.problem("", 0, _UNGROUPED.format(alone))
    if builder.facts.grouped_by is None:
        inferred = "prompt" if by_prompt.any() else None
        builder.note(grouped_by="key" if named and by_prompt.mean() < 0.5 else inferred)


def _blocks(
    file: NDArray[Any], step: NDArray[np.int64], row: NDArray[Any], size: int
) -> NDArray[np.int64]:
    """Return the block of each row: every `size` rows of one file and step, as they stand."""
    order = np.lexsort((row, step, file))
    new = np.ones(len(step), dtype=bool)
    new[1:] = (np.diff(file[order]) != 0) | (np.diff(step[order]) != 0)
    starts = np.flatnonzero(new)
    rank = np.arange(len(step)) - np.repeat(starts, np.diff(np.append(starts, len(step))))
    block = np.empty(len(step), dtype=np.int64)
    block[order] = np.cumsum(rank % size == 0) - 1
    return block


def _arranged(
    step: NDArray[np.int64], identity: NDArray[np.int64], sample: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of rows that puts groups together, and the groups' offsets.

    Rows of a group usually stand together, so runs of rows are sorted and not rows.
    """
    new = np.ones(len(step), dtype=bool)
    new[1:] = (step[1:] != step[:-1]) | (identity[1:] != identity[:-1])
    starts = np.flatnonzero(new)
    run_step, run_identity = step[starts], identity[starts]
    steps = np.unique(run_step, return_inverse=True)[1]
    key = steps * (int(identity.max()) + 1) + run_identity
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    runs = np.lexsort((first[inverse], run_step))
    bounds = np.append(starts, len(step))
    order = sample_index(bounds, runs)
    border = np.ones(len(runs), dtype=bool)
    border[1:] = inverse[runs][1:] != inverse[runs][:-1]
    sizes = np.add.reduceat(np.diff(bounds)[runs], np.flatnonzero(border))
    offsets = offsets_of(sizes)
    if sample is not None:
        order = _by_sample(order, sizes, sample)
    return order, offsets


def _by_sample(
    order: NDArray[np.int64], sizes: NDArray[np.int64], sample: NDArray[Any]
) -> NDArray[np.int64]:
    group = np.repeat(np.arange(len(sizes)), sizes)
    placed = sample[order]
    if ((np.diff(placed) >= 0) | (np.diff(group) > 0)).all():
        return order
    return order[np.lexsort((placed, group))]

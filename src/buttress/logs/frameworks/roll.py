"""ROLL's dumps: ``rollout_dump_data.step_N.jsonl``, one line of columns per step.

RLVR pipelines write global_step, id, source, difficulty, prompt, messages, ground_truth,
case_type, test_case_function, test_cases, tag, domain, responses, scores, sampling_params (what
the data set has of these). Agentic pipelines write trajectory_data, messages, tools, exp_name,
global_step; see `roll_trajectories`. To the schema of alibaba/ROLL at commit 8eb27cc
(``pipeline/rlvr/utils.dump_rollout_to_specific_path``, ``pipeline/agentic/utils``).

An RLVR line names the data set's row (``id``) and no group; ROLL lays the rollouts of a query side
by side and compares as many as it samples. So a group is a run of rows of one domain and id. Where
the same row was drawn twice in a step, runs of the usual length stay apart. ``scores`` is the
reward before clipping and normalisation; lengths are not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from buttress.groups import Text
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.wide import Row, column, listed, steps_of, wide_texts
from buttress.logs.frameworks.roll_trajectories import TRAJECTORIES, trajectories, trajectory_texts
from buttress.logs.prose import text_digest, text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, step_of_name

_NAME = "rollout_dump_data.step_"
_REQUIRED = {"responses", "scores", "global_step"}
_GROUPS = "groups: runs of rows of one {} (ROLL lays the rollouts of a query side by side)"
_ONLY_PROMPTS = "the lines have no column id: rows of one prompt that stand together were grouped"
_NEITHER = "no responses and scores in this line, left out"


class RollRollouts:
    """Reads the dumps of a run, of RLVR or of agents."""

    name: ClassVar[str] = "roll"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    file_by_file: ClassVar[bool] = True

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the name is ROLL's, or else the columns are."""
        if path.name.startswith(_NAME) and head.lstrip().startswith(b"{"):
            return True
        return any(
            row.keys() >= _REQUIRED and isinstance(row["responses"], list)
            for row in first_rows(head)
        )

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the dumps of a run."""
        for path in files:
            file, done = builder.open(path, wide_texts(_texts)), 0
            for line, row in steps_of(path, builder):
                columns, count = _columns(row, path, line, builder)
                if count:
                    rows = range(done + 1, done + count + 1)
                    builder.add(file, list(rows), columns, [line] * count)
                done += count


def _columns(
    row: Row, path: Path, line: int, builder: RolloutBuilder
) -> tuple[dict[str, Any], int]:
    """Return the columns of a line and the number of its rollouts, texts left in."""
    if TRAJECTORIES in row:
        return trajectories(row, path, line, builder)
    complain = partial(builder.problem, path, line)
    count = _count(row)
    if not count:
        builder.problem(path, line, _NEITHER, kind=_NEITHER)
        return {}, 0
    found: dict[str, Any] = {
        "reward": column(row, "scores", count, complain),
        "completion": column(row, "responses", count, complain),
        "step": column(row, "global_step", count, complain),
    }
    if found["step"] is None:
        found["step"] = step_of_name(path)
    given = column(row, "id", count, complain)
    domain = column(row, "domain", count, complain) or [None] * count
    prompt = _prompts(row, count)
    named = given is not None and None not in given
    builder.infer(_GROUPS.format("domain and id" if named else "prompt"))
    if not named:
        builder.problems.once((path.parent, "id"), str(path), line, _ONLY_PROMPTS)
    found["prompt_id"] = [
        f"{text_of(where)}/{text_of(one)}" if where is not None else text_of(one)
        for where, one in zip(domain, given if named else map(_digest, prompt), strict=True)
    ]
    found["prompt"] = prompt
    found["group"], found["sample"] = _groups(found["prompt_id"], builder.options.group_size)
    return {name: values for name, values in found.items() if values is not None}, count


def _count(row: Row) -> int:
    return len(listed(row, "responses", "scores"))


def _prompts(row: Row, count: int) -> list[Any]:
    """Return the prompts, by messages where there is no plain text."""
    found = listed(row, "prompt", "messages")
    return found if len(found) == count else [None] * count


def _digest(prompt: Any) -> str | None:
    text = text_of(prompt)
    return None if text is None else text_digest(text)


def _texts(row: Row) -> list[Text]:
    if TRAJECTORIES in row:
        return trajectory_texts(row)
    count = _count(row)
    found = listed(row, "responses")
    responses = found if len(found) == count else [None] * count
    return [
        Text(text_of(prompt) or "", text_of(response) or "")
        for prompt, response in zip(_prompts(row, count), responses, strict=True)
    ]


def _groups(keys: Sequence[Hashable], size: int | None = None) -> tuple[list[str], list[int]]:
    """Return the group and the place in it of each row, by runs of equal keys.

    Several runs of one key are groups of their own if all have the usual length, else parts of one
    group.

    Examples
    --------
    >>> _groups(["a", "a", "b", "b", "a", "a"])[0]
    ['a', 'a', 'b', 'b', 'a (2)', 'a (2)']
    >>> _groups(["a", "b", "a", "b", "c", "c"])[0]
    ['a', 'b', 'a', 'b', 'c', 'c']
    """
    runs = [(key, len(list(rows))) for key, rows in groupby(keys)]
    usual = size or Counter(length for _, length in runs).most_common(1)[0][0]
    whole: dict[Hashable, bool] = {}
    for key, length in runs:
        whole[key] = whole.get(key, True) and usual > 1 and length % usual == 0
    place: Counter[Hashable] = Counter()
    groups, samples = [], []
    for key, length in runs:
        for at in range(place[key], place[key] + length):
            turn, sample = divmod(at, usual) if whole[key] else (0, at)
            groups.append(f"{key} ({turn + 1})" if turn else str(key))
            samples.append(sample)
        place[key] += length
    return groups, samples

"""The agentic dumps of ROLL: a trajectory is JSON within the column ``trajectory_data``.

Of a trajectory that trains step by step only the last step has the data. A group is what ROLL calls
``traj_group_id``: tag, group, episode and seed of the environment, which `trajectory_data` names in
``env_info`` (``agent_native_env_manager``) or in its ``trajectory_id`` (``proxy_env_manager``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from buttress.groups import Text
from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import FAULTS, decoded
from buttress.logs.formats.wide import Row, listed
from buttress.logs.prose import text_of
from buttress.logs.rows import step_of_name

TRAJECTORIES = "trajectory_data"
# of a trajectory_id: what the group shares, then environment, time, and branch
_ID = re.compile(r"(.+)_(\d+)_\d{8}_\d{6}_\d{6}(?:_b\d+)?")
_EVALUATIONS = "rollouts of evaluations were left out (mode val in their env_info)"
_BROKEN = "a trajectory that is no JSON object"


class _Trajectory(msgspec.Struct, gc=False):
    trajectory_id: Any = None
    env_info: dict[str, Any] = {}
    reward_info: dict[str, Any] = {}
    failure_info: dict[str, Any] = {}
    finish_reason: Any = None
    messages: Any = None


def trajectories(
    row: Row, path: Path, line: int, builder: RolloutBuilder
) -> tuple[dict[str, Any], int]:
    """Return the columns of a line's trajectories and their number."""
    steps = listed(row, "global_step")
    found: dict[str, list[Any]] = {}
    for at, one in _training(row, path, line, builder):
        group, task, sample = _identity(one)
        text = _text(row, at, one)
        reward = one.reward_info
        why = one.failure_info.get("stop_reason") or one.finish_reason
        values = {
            "step": steps[at] if at < len(steps) else step_of_name(path),
            "group": group,
            "prompt_id": task,
            "sample": sample,
            # a branch of a trajectory has a reward of its own
            "reward": reward.get("step_reward", reward.get("episode_reward")),
            "truncated": finish.truncated(why),
            "prompt": text.prompt or None,
            "completion": text.completion or None,
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found, len(found.get("group", ()))


def trajectory_texts(row: Row) -> list[Text]:
    """Return the texts of the rollouts that `trajectories` makes of a line."""
    kept = _training(row, Path(), 0, RolloutBuilder())
    return [_text(row, at, one) for at, one in kept]


def _training(
    row: Row, path: Path, line: int, builder: RolloutBuilder
) -> Iterator[tuple[int, _Trajectory]]:
    """Yield place and content of the trajectories that train."""
    for at, item in enumerate(listed(row, TRAJECTORIES)):
        if item is None:
            continue
        try:
            data = item.encode() if isinstance(item, str) else msgspec.json.encode(item)
            one = decoded(data, _Trajectory)
        except FAULTS as fault:
            builder.problem(path, line, f"{_BROKEN}: {fault}", lost=1, kind=_BROKEN)
            continue
        if one.env_info.get("mode") == "val":
            builder.infer(_EVALUATIONS)
        else:
            yield at, one


def _identity(one: _Trajectory) -> tuple[str | None, str | None, Any]:
    """Return group, task (the seed of the environment) and sample of a trajectory."""
    env = one.env_info
    if env.get("group_id") is not None and env.get("seed") is not None:
        tag, seed = env.get("tag"), env["seed"]
        group = f"{tag}_{env['group_id']}_{env.get('episode_id')}_{seed}"
        return group, f"{tag}/{seed}", env.get("env_id")
    named = _ID.fullmatch(str(one.trajectory_id))
    if not named:
        return None, None, None
    tag, _, _, seed = named[1].rsplit("_", 3) if named[1].count("_") >= 3 else (None,) * 4
    return named[1], None if seed is None else f"{tag}/{seed}", int(named[2][:15])


def _text(row: Row, at: int, one: _Trajectory) -> Text:
    """Return what stands before the first answer, and all from there on."""
    said = one.messages
    column = listed(row, "messages")
    if said is None and at < len(column):
        said = _parsed(column[at])
    if not isinstance(said, list):
        return Text("", text_of(said) or "")
    if said and isinstance(said[-1], list):  # one list for each step; the last has them all
        said = said[-1]
    asked = list(takewhile(lambda message: not _answers(message), said))
    return Text(text_of(asked) or "", text_of(said[len(asked) :]) or "")


def _parsed(messages: Any) -> Any:
    if not isinstance(messages, str):
        return messages
    try:
        return decoded(messages.encode(), Any)
    except FAULTS:
        return messages


def _answers(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"

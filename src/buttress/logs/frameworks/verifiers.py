"""verifiers: ``traces.jsonl`` of an evaluation, one episode per line.

To the schema of verifiers 0.4.0 (``v1.episode.Episode``, ``v1.trace.Trace`` version 1), whose own
models write the fixture. prime-rl logs the same episodes, see `prime_rl`; the rows of verifiers'
older ``results.jsonl`` are in `verifiers_results`.

What a trace does not say is read as verifiers does: its reward is the weighted sum of the rewards
that were scored, it is truncated at a limit of the framework or where the last call ended at
``length``. A trace that failed has no reward, whatever was scored before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import COMPONENT
from buttress.logs.formats.nested import Nested, Place, RecordFormat, Rollout
from buttress.logs.frameworks.verifiers_results import correct_of
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan

# `Trace.is_truncated` is a property and not written; these are the reasons that it names.
_LIMITS = {
    "max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens",
    "context_length", "compaction_failed",
}  # fmt: skip
_UNTRAINED = "traces of agents that are not trained (judges, opponents) were left out"
_CREDIT = "advantage: unknown in rollouts whose tokens have several"
_FAILED = "an episode that failed before it had a trace"


class Node(msgspec.Struct):
    """A message; per-token fields stand over the tokens that were sampled."""

    message: Any = None
    sampled: Any = False
    mask: list[bool] | None = None
    advantages: list[float] | None = None


class Call(msgspec.Struct):
    """A call of the model."""

    finish_reason: Any = None
    usage: dict[str, Any] | None = None
    error: Any = None


class Agent(msgspec.Struct, frozen=True):
    """Who acted, and whether its tokens train the policy."""

    name: Any = None
    trainable: Any = True


class Task(msgspec.Struct, frozen=True):
    """The row that was solved; `key` and `hash` stay the same between steps and runs."""

    data: dict[str, Any] = {}
    key: str | None = None
    hash: str | None = None


class Trace(msgspec.Struct):
    """The rollout of one agent."""

    task: Task = Task()
    id: str | None = None
    agent: Agent = Agent()
    nodes: list[Node] = []
    calls: list[Call] = []
    rewards: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    ok: Any = False
    stop_condition: Any = None


class Episode(msgspec.Struct):
    """One run of an environment, with the traces of its agents."""

    traces: list[Trace]
    task: Task = Task()
    env: dict[str, Any] = {}
    group: dict[str, Any] | None = None
    run: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = []


class VerifiersTraces:
    """Reads the episodes of evaluations; a group is all episodes of one task."""

    name: ClassVar[str] = "verifiers"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    file_by_file: ClassVar[bool] = True

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows are episodes."""
        return any(map(is_episode, first_rows(head)))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the traces of a run."""
        records = Nested(builder, RecordFormat("a verifiers episode", Episode, rollouts_of))
        for path in files:
            records.read(path)


def is_episode(row: Mapping[str, Any]) -> bool:
    """Return whether a row is an episode."""
    return isinstance(row.get("traces"), list) and isinstance(row.get("task"), dict)


def rollouts_of(episode: Episode, place: Place) -> Iterator[Rollout]:
    """Yield the traces of an episode that train the policy."""
    if not episode.traces:
        why = (episode.errors or [{}])[-1].get("type", "no error was recorded")
        place.problem(f"{_FAILED}: {why}", kind=_FAILED)
    for trace in episode.traces:
        if trace.agent.trainable is False:
            place.builder.infer(_UNTRAINED)
            continue
        task = _identity(episode)
        columns = {
            "group": (episode.group or {}).get("id") or task,
            "prompt_id": task,
            "step": work_of(episode).get("step"),
            "reward": _reward(trace),
            "advantage": advantage_of(trace, place.builder),
            "length": _length(trace),
            "truncated": _truncated(trace),
        }
        scores = {name: _score(one) for name, one in trace.rewards.items()}
        known = trace.metrics | scores
        columns |= correct_of(known, place.builder)
        columns |= {COMPONENT + name: score for name, score in scores.items()}
        columns |= {"prompt": _prompt(trace, episode), "completion": _completion(trace)}
        yield Rollout({key: one for key, one in columns.items() if one is not None}, known)


def work_of(episode: Episode) -> dict[str, Any]:
    """Return what the episode did for a training run: type and step; empty outside of one."""
    work = (episode.run or {}).get("work")
    return work if isinstance(work, dict) else {}


def advantage_of(trace: Trace, builder: RolloutBuilder) -> float | None:
    """Return the one advantage of a trace's tokens; None where there is none or more than one."""
    found = {one for node in trace.nodes for one in node.advantages or ()}
    if len(found) > 1:
        builder.infer(_CREDIT)
    return found.pop() if len(found) == 1 else None


def _identity(episode: Episode) -> str | None:
    """Return what stays the same of a task: its key or hash, else its number in the taskset."""
    task = episode.task
    if task.key or task.hash:
        return task.key or task.hash
    number = task.data.get("idx", task.data.get("name"))
    return None if number is None else f"{episode.env.get('id', '')}/{number}"


def _score(reward: Any) -> Any:
    return reward.get("score") if isinstance(reward, dict) else reward


def _reward(trace: Trace) -> float | None:
    if trace.ok is not True:
        return None
    parts = [one for one in trace.rewards.values() if _score(one) is not None]
    weights = [one.get("weight", 1.0) if isinstance(one, dict) else 1.0 for one in parts]
    values = [
        number_or_nan(_score(one)) * number_or_nan(weight)
        for one, weight in zip(parts, weights, strict=True)
    ]
    return sum(values) if values else None


def _length(trace: Trace) -> int | None:
    """Return the sampled tokens: as the server counted them, else by the mask."""
    counts = [call.usage.get("completion_tokens") for call in trace.calls if call.usage]
    known = [one for one in counts if isinstance(one, int)]
    if known and len(known) == len(counts):
        return sum(known)
    return sum(sum(node.mask or ()) for node in trace.nodes) or None


def _truncated(trace: Trace) -> bool | None:
    if trace.stop_condition in _LIMITS:
        return True
    last = next((call for call in reversed(trace.calls) if call.error is None), None)
    return None if last is None else finish.truncated(last.finish_reason)


def _prompt(trace: Trace, episode: Episode) -> str | None:
    prompt = text_of(trace.task.data.get("prompt") or episode.task.data.get("prompt"))
    if prompt is not None:
        return prompt
    before = [text_of(node.message) for node in takewhile(lambda one: not one.sampled, trace.nodes)]
    return "\n".join(filter(None, before)) or None


def _completion(trace: Trace) -> str | None:
    said = [part for node in trace.nodes if node.sampled for part in _said(node.message)]
    return "\n".join(said) if said else None


def _said(message: Any) -> Iterator[str]:
    """Yield thoughts, words and tool calls of a message: two that differ in one are different."""
    if not isinstance(message, dict):
        return
    for name in ("reasoning_content", "content"):
        if part := text_of(message.get(name)):
            yield part
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield (
            f"{call.get('name')}({call.get('arguments')})" if isinstance(call, dict) else str(call)
        )

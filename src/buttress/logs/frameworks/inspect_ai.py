"""inspect_ai: evaluation logs, ``.eval`` (a zip archive) and ``.json``, of log version 2.

Read without inspect_ai, whose import takes seconds and hundreds of megabytes: an ``.eval`` holds
one JSON document per sample, decoded one at a time. The fixtures are written by inspect_ai
0.3.285, those with samples in chunks by its ``convert-chunked``.

The epochs of one sample are a group. The reward is the score of the only scorer, else of the first
one; ``--map reward=SCORER`` takes another, and every scorer is a component. The letters C, P, I
and N count 1, 0.5, 0 and 0, as inspect_ai counts them, and say what is `correct`. Logs know no
step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from buttress.groups import Text
from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.columns import COMPONENT
from buttress.logs.formats.nested import FAULTS, Rollout, columns_of, decoded, text
from buttress.logs.frameworks.inspect_files import Document, documents, is_archive
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions

_DOCUMENT = re.compile(
    rb'(\xef\xbb\xbf)?\s*\{\s*"version":\s*\d+,\s*"status":\s*"\w+",\s*"eval":\s*\{'
)
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_FIRST = "reward: the score of {}, the first of {} scorers"
_AGAIN = "{} samples stand in more than one log, as after a retry; each was counted once"
_ATTACHED = "attachment://"
_CHUNK = 256


class Sample(msgspec.Struct):
    """One run of one sample."""

    id: Any
    epoch: Any = None
    input: Any = None
    messages: list[Any] | None = None
    output: dict[str, Any] | None = None
    scores: dict[str, Any] | None = None
    model_usage: dict[str, Any] | None = None
    attachments: dict[str, Any] | None = None
    error: Any = None
    limit: Any = None
    uuid: str | None = None


class InspectLogs:
    """Reads evaluation logs; those of one task id, as a retry writes them, are one evaluation."""

    name: ClassVar[str] = "inspect_ai"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".eval", ".json")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether this is a log, by its first entry or its first keys."""
        return is_archive(path, head) or _DOCUMENT.match(head) is not None

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the samples of every log."""
        seen: set[str] = set()
        logs = [_Reading(path, builder, seen) for path in files]
        for log in logs:
            log.read()
        if repeated := sum(log.repeated for log in logs):
            builder.note(repeated=builder.facts.repeated + repeated)
            builder.infer(_AGAIN.format(repeated))
        sizes = {log.epochs for log in logs}
        if len(sizes) == 1 and isinstance(size := sizes.pop(), int) and not options.group_size:
            builder.note(group_size=size)


class _Reading:
    """Hands the samples of one log to the builder, each sample once."""

    def __init__(self, path: Path, builder: RolloutBuilder, seen: set[str]) -> None:
        self._path = path
        self._builder = builder
        self._seen = seen
        self._names: list[str] = []  # of the samples that were kept, in order
        self.repeated = 0
        self.epochs: Any = None

    def read(self) -> None:
        file = self._builder.open(self._path, partial(_fetch, names=self._names))
        rows: list[Rollout] = []
        for one in documents(self._path, self._builder):
            found = self._rollout(one)
            if found is not None:
                rows.append(found)
                self._names.append(one.name)
            if len(rows) == _CHUNK:
                self._hand_over(file, rows)
                rows = []
        self._hand_over(file, rows)

    def _rollout(self, one: Document) -> Rollout | None:
        self.epochs = one.log.eval.config.epochs
        try:
            sample = _sample(one)
            if sample.uuid in self._seen:
                self.repeated += 1
                return None
            found = _rollout_of(sample, one, self._builder)
        except FAULTS as fault:
            kind = "not a sample of inspect_ai"
            message = f"{one.name} is {kind}: {fault}"
            self._builder.problem(self._path, 0, message, lost=1, kind=kind)
            return None
        if sample.uuid is not None:
            self._seen.add(sample.uuid)
        return found

    def _hand_over(self, file: int, rows: list[Rollout]) -> None:
        if rows:
            last = len(self._names)
            numbers = list(range(last - len(rows) + 1, last + 1))
            # a log has samples and no lines
            lines = [0] * len(rows)
            self._builder.add(file, numbers, columns_of(rows, self._builder), lines)


def _fetch(path: Path, rows: Sequence[int], *, names: Sequence[str]) -> list[Text]:
    wanted = {names[row - 1]: row for row in rows}
    unheard, found = RolloutBuilder(), {}
    for one in documents(path, unheard, wanted):
        try:
            found[wanted[one.name]] = text(_rollout_of(_sample(one), one, unheard))
        except FAULTS:  # the file was changed since
            continue
    return [found.get(row, Text("", "")) for row in rows]


def _sample(one: Document) -> Sample:
    if isinstance(one.data, bytes):
        return decoded(one.data, Sample)
    return msgspec.convert(one.data, Sample)


def _rollout_of(sample: Sample, one: Document, builder: RolloutBuilder) -> Rollout:
    """Return a sample as a rollout; one that failed has no score and so no reward."""
    spec, identity = one.log.eval, text_of(sample.id)
    values = {name: _value(score) for name, score in (sample.scores or {}).items()}
    first = next(iter(values), None)
    if len(values) > 1 and "reward" not in builder.options.map:
        builder.infer(_FIRST.format(first, len(values)))
    numbers = dict(pair for name, value in values.items() for pair in _numbers(name, value))
    letters = [value for value in values.values() if isinstance(value, str) and value in _LETTERS]
    columns = {
        "group": f"{spec.task_id or spec.task}/{identity}",
        "sample": sample.epoch,
        "prompt_id": f"{spec.task}/{identity}",
        "prompt": text_of(_attached(sample.input, sample)),
        "completion": _completion(sample),
        "reward": None if first is None else numbers.get(first),
        "correct": _LETTERS[letters[0]] if letters else None,
        "length": _tokens(sample, spec.model),
        "truncated": _truncated(sample),
    }
    columns |= {COMPONENT + name: number for name, number in numbers.items()}
    return Rollout({name: one for name, one in columns.items() if one is not None}, numbers)


def _value(score: Any) -> Any:
    return score.get("value") if isinstance(score, dict) else score


def _numbers(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the numbers that a scorer gave; a dictionary of scores has one name for each."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(f"{name}/{key}", part)
    elif isinstance(value, str):
        yield name, _LETTERS.get(value, _WORDS.get(value.lower(), value))
    else:
        yield name, value


def _completion(sample: Sample) -> str | None:
    """Return what the model said, in all turns where the conversation is in the sample."""
    said = [
        text_of(_attached(one.get("content"), sample))
        for one in sample.messages or ()
        if isinstance(one, dict)
        and (one.get("role"), one.get("source")) == ("assistant", "generate")
    ]
    if said:
        return "\n".join(filter(None, said))
    output = sample.output or {}
    return text_of(_attached(output.get("completion"), sample)) if output.get("choices") else None


def _attached(value: Any, sample: Sample) -> Any:
    """Return a text in place of the reference to it."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return (sample.attachments or {}).get(value.removeprefix(_ATTACHED), value)
    return value


def _tokens(sample: Sample, model: Any) -> Any:
    """Return the tokens that the model wrote: in all its calls, else in the last one."""
    usage = (sample.model_usage or {}).get(str(model)) or (sample.output or {}).get("usage")
    return usage.get("output_tokens") if isinstance(usage, dict) else None


def _truncated(sample: Sample) -> bool | None:
    """Return whether the last answer, or the tokens of the whole sample, hit their limit."""
    if isinstance(sample.limit, dict) and sample.limit.get("type") in ("token", "context"):
        return True
    choices = (sample.output or {}).get("choices")
    last = choices[0] if isinstance(choices, list) and choices else None
    return finish.truncated(last.get("stop_reason")) if isinstance(last, dict) else None

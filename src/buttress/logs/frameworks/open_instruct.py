"""open-instruct's rollout shards: ``{run}_rollouts_{shard}.jsonl``, written with ``save_traces``.

One line per rollout: step, sample_idx, prompt_idx, prompt_tokens, response_tokens, reward,
advantage, finish_reason, dataset, ground_truth, request_info, logprobs; beside the shards stands
``{run}_metadata.jsonl``. To the schema of allenai/open-instruct at commit e6c3044
(``rl_utils.RolloutRecord``, ``data_loader.DataPreparationActor``).

A group is one ``prompt_idx`` of a step: a place in the batch, not the name of a prompt, so prompts
are told by a hash of their tokens. There is no text. What is saved is what is left after
``filter_zero_std_samples``, on by default, has dropped every group with ``np.std(rewards) == 0``.
A log without such a group counts as filtered (our reading: nothing in it says so).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from buttress.logs import finish
from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import FAULTS, Nested, Place, RecordFormat, Rollout, decoded
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, number_or_nan

_REQUIRED = {"step", "sample_idx", "prompt_idx", "response_tokens"}
_OTHER = "a JSON object without a reward or response tokens, left out"
_FILTERED = (
    "filtered: open-instruct drops groups without a spread before it saves them, unless "
    "filter_zero_std_samples is off; no group here is without a spread"
)
_AGAIN = (
    "steps {} were saved more than once, as after a restart; each time is a batch of its own here"
)


class _Row(msgspec.Struct):
    step: Any = None
    sample_idx: Any = None
    prompt_idx: Any = None
    prompt_tokens: msgspec.Raw | None = None
    response_tokens: msgspec.Raw | None = None
    reward: Any = None
    advantage: Any = None
    finish_reason: Any = None
    dataset: Any = None


class _Shard(RecordFormat):
    """Lines whose lists of tokens stay encoded."""

    def record(self, line: bytes) -> _Row:
        """Return a line as a row; raises one of `FAULTS`."""
        try:
            return _DECODER.decode(line)
        except FAULTS:
            found = decoded(line, dict[str, Any])  # logprobs may be NaN
        row = _Row(**{name: found.get(name) for name in _Row.__struct_fields__})
        for name in ("prompt_tokens", "response_tokens"):
            tokens = getattr(row, name)
            known = tokens is not None
            setattr(row, name, msgspec.Raw(msgspec.json.encode(tokens)) if known else None)
        return row


_DECODER = msgspec.json.Decoder(_Row)


class OpenInstructRollouts:
    """Reads the shards of a run."""

    name: ClassVar[str] = "open-instruct"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)
    companions: ClassVar[tuple[str, ...]] = ("*_metadata.jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows have open-instruct's columns."""
        return any(row.keys() >= _REQUIRED for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the shards of a run."""
        batches, spreads = _Batches(), _Spreads()

        def rollouts(row: _Row, place: Place) -> Iterator[Rollout]:
            if row.response_tokens is None and row.reward is None:
                place.problem(_OTHER)
                return
            group = batches.group(row)
            spreads.see((row.step, group), row.reward)
            yield Rollout(_columns(row, group), {"dataset": row.dataset})

        records = Nested(builder, _Shard("a rollout of open-instruct", _Row, rollouts))
        for path in files:
            records.read(path)
        spreads.close()
        if batches.repeated:
            builder.infer(_AGAIN.format(", ".join(map(str, sorted(batches.repeated)[:8]))))
        if spreads.groups and not spreads.flat:
            builder.note(filtered=True)
            builder.infer(_FILTERED)


def _columns(row: _Row, group: Any) -> dict[str, Any]:
    # json.dumps writes spaces, and equal tokens are to be equal however they are written
    tokens = bytes(row.response_tokens or b"").replace(b" ", b"")
    listed = tokens.startswith(b"[")
    return {
        "step": row.step,
        "group": group,
        "sample": row.sample_idx,
        "prompt": bytes(row.prompt_tokens).decode().replace(" ", "") if row.prompt_tokens else None,
        "completion": tokens if listed else None,
        "reward": row.reward,
        "advantage": row.advantage,
        "length": _count(tokens) if listed else None,
        "truncated": finish.truncated(row.finish_reason),
    }


def _count(tokens: bytes) -> int:
    """Return the length of a JSON list of numbers.

    >>> _count(b"[ ]"), _count(b"[7]"), _count(b"[7, 8]")
    (0, 1, 2)
    """
    return tokens.count(b",") + 1 if tokens[1:-1].strip() else 0


class _Batches:
    """Tells the batches of one step apart; each is saved at once and begins with sample 0."""

    def __init__(self) -> None:
        self.repeated: set[Any] = set()
        self._saved: Counter[Any] = Counter()

    def group(self, row: _Row) -> Any:
        """Return the name of a row's group within its step."""
        if isinstance(row.step, list | dict) or isinstance(row.prompt_idx, list | dict):
            return None
        if row.sample_idx == 0:
            self._saved[row.step] += 1
        batch = self._saved[row.step]
        if batch < 2 or row.prompt_idx is None:
            return row.prompt_idx
        self.repeated.add(row.step)
        return f"{row.prompt_idx} of batch {batch}"


class _Spreads:
    """Watches whether a group has no spread, as open-instruct's filter sees it."""

    def __init__(self) -> None:
        self.groups = 0
        self.flat = False
        self._key: Any = None
        self._rewards: list[float] = []

    def see(self, key: Any, reward: Any) -> None:
        """Take the next row."""
        if key != self._key:
            self.close()
            self._key = key
        self._rewards.append(number_or_nan(reward))

    def close(self) -> None:
        """End the current group."""
        rewards, self._rewards = self._rewards, []
        if len(rewards) > 1:
            self.groups += 1
            # the filter itself is asked: np.std of eight 0.1 is not quite 0
            even = min(rewards) == max(rewards)
            self.flat = self.flat or (even and bool(np.std(rewards) == 0))

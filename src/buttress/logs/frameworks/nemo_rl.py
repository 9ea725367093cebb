"""NeMo-RL: ``train_data_step<n>.jsonl`` in the log directory, one rollout per line.

To the schema of NVIDIA-NeMo/RL at commit 7ea279a (``Logger.log_batched_dict_as_jsonl``): content,
rewards, input_lengths, token_ids, token_loss_mask, sample_loss_mask, advantages, ... and idx, each
a list of one, since a line is a batch of one.

NeMo-RL itself compares the rows of a batch whose prompts have equal tokens
(``calculate_baseline_and_std_per_prompt``), and names no groups: a group is the rows of one step
with equal tokens before the first that is trained on. The length is the number of trained tokens.

With ``grpo.use_dynamic_sampling`` only groups with a spread are in the file, and ``rewards`` is
that of another batch than the other columns: ``filtered_rewards`` belongs to the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from buttress.logs.builder import RolloutBuilder
from buttress.logs.formats.nested import Nested, Place, RecordFormat, Rollout
from buttress.logs.prose import text_of
from buttress.logs.reader import Kind, ReadOptions
from buttress.logs.rows import first_rows, step_of_name

_VALIDATION = re.compile(r"val_data_step\d+")
_EVALUATIONS = "a validation, left out; name the file to read it"
_KEY = "prompt_id: the tokens of the prompt, by which NeMo-RL itself compares rollouts"
_CREDIT = "advantage: unknown in rollouts whose tokens have several"
_FILTERED = (
    "filtered: with dynamic sampling NeMo-RL writes groups with a spread only; the reward is read "
    "from filtered_rewards, since rewards belongs to other rows"
)
_NOTHING = "a row without a rollout, as dynamic sampling leaves where it drew more than it trained"


class Row(msgspec.Struct):
    """A batch of one rollout: each column is a list of one, or empty."""

    content: list[Any] | None = None
    rewards: list[Any] | None = None
    filtered_rewards: list[Any] | None = None
    token_ids: list[list[int]] | None = None
    token_loss_mask: list[list[float]] | None = None
    advantages: list[list[float]] | None = None


class NemoRollouts:
    """Reads the training data of each step; validations where there is nothing else."""

    name: ClassVar[str] = "nemo-rl"
    kind: ClassVar[Kind] = "rollouts"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether rows are batches of one."""
        return any(_is_batch(row) for row in first_rows(head))

    def read(self, files: Sequence[Path], builder: RolloutBuilder, options: ReadOptions) -> None:
        """Read the training data of a run."""
        records = Nested(builder, RecordFormat("a row of NeMo-RL", Row, _rollouts))
        for path in _training(files, builder):
            records.read(path)


def _is_batch(row: dict[str, Any]) -> bool:
    rewards = row.get("rewards")
    alone = isinstance(rewards, list) and len(rewards) < 2
    return alone and "idx" in row and not row.keys().isdisjoint(("content", "token_ids"))


def _training(files: Sequence[Path], builder: RolloutBuilder) -> list[Path]:
    validations = [path for path in files if _VALIDATION.match(path.name)]
    training = [path for path in files if path not in set(validations)]
    if validations and training:
        more = f" ({len(validations)} files)" if len(validations) > 1 else ""
        builder.problem(validations[0], 0, _EVALUATIONS + more)
    return training or list(files)


def _rollouts(row: Row, place: Place) -> Iterator[Rollout]:
    filtered = row.filtered_rewards is not None
    if filtered:
        place.builder.note(filtered=True)
        place.builder.infer(_FILTERED)
    reward = _only(row.filtered_rewards if filtered else row.rewards)
    tokens, content = _only(row.token_ids), _only(row.content)
    if tokens is None and content is None:
        place.problem(_NOTHING)
        return
    mask = _only(row.token_loss_mask) or []
    prompt, completion = _texts(content)
    columns = {
        "step": step_of_name(place.path),
        "prompt_id": _prompt_id(tokens, mask, place.builder),
        "reward": reward,
        "advantage": _advantage(_only(row.advantages), mask, place.builder),
        "length": int(sum(mask)) if mask else None,
        "prompt": prompt,
        "completion": completion,
    }
    others = {"rewards": _only(row.rewards), "filtered_rewards": _only(row.filtered_rewards)}
    yield Rollout(
        {name: one for name, one in columns.items() if one is not None},
        {name: one for name, one in others.items() if one is not None},
    )


def _only(column: list[Any] | None) -> Any:
    """Return what a batch of one holds; None where it is empty."""
    return column[0] if column else None


def _prompt_id(tokens: Any, mask: list[float], builder: RolloutBuilder) -> str | None:
    """Return a hash of the tokens before the first that is trained on; None where none is."""
    first = next((at for at, trained in enumerate(mask) if trained), 0)
    if not tokens or not first:
        return None
    builder.infer(_KEY)
    prompt = np.array(tokens[:first], dtype=np.int64)
    return blake2b(prompt.tobytes(), digest_size=8).hexdigest()


def _advantage(advantages: Any, mask: list[float], builder: RolloutBuilder) -> float | None:
    """Return the one advantage of the trained tokens; None where there are several."""
    found = set(compress(advantages or (), mask))
    if len(found) > 1:
        builder.infer(_CREDIT)
    return found.pop() if len(found) == 1 else None


def _texts(content: Any) -> tuple[str | None, str | None]:
    """Return prompt and completion of a conversation: its messages, or their texts in turn.

    Everything after the first answer is completion; of texts without roles the last alone is.
    """
    if not isinstance(content, list):
        return None, text_of(content)
    roles = [one.get("role") if isinstance(one, dict) else None for one in content]
    first = roles.index("assistant") if "assistant" in roles else len(content) - 1
    prompt, completion = text_of(content[:first]), text_of(content[first:])
    return prompt or None, completion or None

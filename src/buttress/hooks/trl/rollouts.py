"""One generation of TRL as `Groups`: the rollouts of all ranks, in the order of the rewards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.trl.tokens import loss_mask
from buttress.logs.frameworks.trl.weights import says_correct
from buttress.logs.prose import text_digest, text_of

Mode = Literal["train", "eval"]


@dataclass(frozen=True, eq=False)
class Generation:
    """The rollouts of one generation, the same on every rank.

    Attributes
    ----------
    groups
        Rewards as TRL sums them, with the columns ``length``, ``truncated`` and ``reward/<name>``,
        prompt ids, and group ids that are unique in a run (``train-12-0``: generation 12, group 0).
    mode
        ``train`` or ``eval``.
    step
        The optimizer step that the rollouts are for; in eval the step reached.
    active
        Tokens of each rollout that count in the loss, shape ``(sample,)``.
    tokens
        Token columns ``(sample, token)`` by name, where the remedy asked for them.
    """

    groups: Groups
    mode: Mode
    step: int
    active: NDArray[np.int64]
    tokens: Mapping[str, Any] | None = None

    def with_tokens(self, tokens: Mapping[str, Any], columns: Mapping[str, Any]) -> Generation:
        """Return the same generation with token columns, and columns of the samples from them."""
        groups = replace(self.groups, columns={**self.groups.columns, **columns})
        return replace(self, groups=groups, tokens=tokens)

    def with_advantages(self, advantages: Any) -> Groups:
        """Return the groups with the advantages, if any, as a column."""
        if advantages is None:
            return self.groups
        columns = {**self.groups.columns, "advantage": self.per_rollout(advantages)}
        return replace(self.groups, columns=columns)

    def per_rollout(self, advantages: Any) -> NDArray[Any]:
        """Return one advantage per rollout; the mean over its tokens where they differ."""
        values = advantages.cpu().numpy()
        if values.ndim == 1:
            return values
        return values.sum(axis=1) / np.maximum(self.groups.columns["length"], 1)


def mode_of(trainer: Any) -> Mode:
    """Return TRL's own notion of what a generation is for."""
    return "train" if trainer.model.training else "eval"


def prompt_number(example: Mapping[str, Any], *, whole: bool = False) -> int:
    """Return a 64-bit identity of a data set row, equal on every rank and in every run.

    It is that of the prompt's text, as in the readers of logs; of the text and the images where
    there are any; of the whole row with `whole`, or without a prompt.

    Examples
    --------
    >>> prompt_number({"prompt": "2+2=", "answer": 4}) == prompt_number({"prompt": "2+2="})
    True
    """
    prompt, images = example.get("prompt"), example.get("images", example.get("image"))
    if whole or prompt is None:
        text = _as_json(example)
    elif images is None:
        text = text_of(prompt) or ""
    else:
        text = _as_json([prompt, images])
    return int.from_bytes(bytes.fromhex(text_digest(text)), "big", signed=True)


def _as_json(thing: Any) -> str:
    return json.dumps(thing, sort_keys=True, default=_fingerprint)


def _fingerprint(thing: Any) -> str:
    content = thing.tobytes() if hasattr(thing, "tobytes") else repr(thing).encode()
    return blake2b(content, digest_size=8).hexdigest()


def local_facts(
    trainer: Any,
    inputs: Sequence[Mapping[str, Any]],
    completion_ids: Sequence[Any],
    output: Mapping[str, Any],
) -> Any:
    """Return what this rank knows of its rows: an int64 tensor ``(row, 5)`` that can be gathered.

    Columns: 1; prompt number; tokens that the model wrote (no tool output); truncated; tokens that
    count in the loss.
    """
    import torch

    # TRL's own test of a clipped completion
    ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}
    # an environment gets the whole row, which then is the task
    whole = trainer.environment_factories is not None
    rows = [
        (1, prompt_number(example, whole=whole), len(ids), int(ids[-1]) not in ends, 0)
        for example, ids in zip(inputs, completion_ids, strict=True)
    ]
    facts = torch.tensor(rows, dtype=torch.int64, device=output["advantages"].device)
    facts[:, 4] = loss_mask(output).sum(dim=1)
    if "tool_mask" in output:
        own = output["tool_mask"].bool()
        inside = torch.arange(own.shape[1], device=own.device) < facts[:, 2:3]  # padded with ones
        tokens = (own & inside).sum(dim=1)
        # mask_truncated_completions hides whole rows
        facts[:, 2] = tokens.where(tokens > 0, facts[:, 2])
    return facts


def no_facts(output: Mapping[str, Any]) -> Any:
    """Return the facts of a rank that could not tell: all 0."""
    import torch

    like = output["advantages"]
    return torch.zeros(len(like), 5, dtype=torch.int64, device=like.device)


def total_rewards(matrix: Any, weights: Any) -> Any:
    """Return the weighted sum of the reward functions; NaN where none gave a reward, as in TRL."""
    total = (matrix * weights.to(matrix.device)[None, :]).nansum(dim=1)
    return total.masked_fill(matrix.isnan().all(dim=1), float("nan"))


def build(trainer: Any, matrix: Any, facts: Any, number: int) -> Generation:
    """Return a generation: its groups are runs of ``num_generations`` rows of all ranks."""
    mode = mode_of(trainer)
    size = trainer.num_generations if mode == "train" else trainer.num_generations_eval
    if len(matrix) != len(facts) or len(matrix) % size:
        raise UsageError(
            f"{len(matrix)} rewards and {len(facts)} rollouts do not make groups of {size}"
        )
    _, prompts, length, truncated, active = facts.cpu().numpy().T
    names = trainer.reward_func_names
    groups = Groups.from_flat(
        total_rewards(matrix, trainer.reward_weights),
        [f"{mode}-{number}-{row // size}" for row in range(len(matrix))],
        prompt_id=[f"{prompt % 2**64:016x}" for prompt in prompts.tolist()],
        step=trainer.state.global_step + (mode == "train"),
        length=length,
        truncated=truncated.astype(bool),
        **verdicts(matrix, names),
        **{f"reward/{name}": matrix[:, at] for at, name in enumerate(names)},
    )
    return Generation(groups, mode, int(groups.step[0]), active)


def verdicts(matrix: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the column ``correct``: the reward function that is a verdict by its name and range.

    So that a remedy tells an all-wrong group from a right one under a constant format reward. No
    column where no function is one, or its rewards leave [0, 1].
    """
    for at, name in enumerate(names):
        rewards = matrix[:, at]
        known = rewards[~rewards.isnan()]
        if says_correct(name) and len(known) and known.min() >= 0 and known.max() <= 1:
            return {"correct": rewards}
    return {}


def mixes_prompts(groups: Groups) -> bool:
    """Whether a group holds rollouts of several prompts."""
    return bool((groups.columns["prompt"] != groups.prompt[groups.group_of]).any())


def checked(advantages: Any, like: Any) -> Any:
    """Return an estimator's result as a tensor like the rewards, or raise `UsageError`.

    Shape ``(sample,)`` or ``(sample, token)``, finite everywhere.
    """
    import torch

    values = torch.as_tensor(advantages, dtype=like.dtype, device=like.device).detach()
    if values.ndim not in (1, 2) or len(values) != len(like):
        raise UsageError(
            f"the estimator gave advantages of shape {tuple(values.shape)} for {len(like)} rollouts"
        )
    if not values.isfinite().all():
        raise UsageError("the estimator gave advantages that are not finite")
    return values


def local_part(advantages: Any, rank: int, output: Mapping[str, Any]) -> Any:
    """Return this rank's rows; token advantages are cut or padded to its completions' width."""
    from torch.nn.functional import pad

    like = output["advantages"]
    rows = len(like)
    local = advantages[rank * rows : (rank + 1) * rows].to(like)
    if local.ndim == 2:
        local = pad(local, (0, output["completion_ids"].shape[1] - local.shape[1]))
    return local

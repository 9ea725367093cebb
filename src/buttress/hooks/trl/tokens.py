"""What the model knows of the tokens that TRL sampled, for the remedies that ask for it.

TRL computes the log-probabilities of a generation only where its own loss needs them, and their
entropies only inside the loss, after the advantages. So a remedy that asks costs one more forward
pass without gradient over each generation (about a third of a training step's forward and backward
pass), with TRL's own method: same temperature, same chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from buttress.errors import UsageError
from buttress.groups.arrays import to_numpy
from buttress.remedies.internal import Intuitor, Rent, mean_over_tokens, self_certainty
from buttress.remedies.token_credit import (
    TokenColumns,
    TokenEstimator,
    segment_ends,
    segments_by_entropy,
)

# belief(trainer, rows, output, ends) -> (belief, prior); see `buttress.hooks.trl.attach`
Belief = Callable[[Any, Sequence[Mapping[str, Any]], Mapping[str, Any], Any], tuple[Any, Any]]

# What TRL's forward pass takes besides the tokens; the output of a generation holds what applies.
FORWARD = (
    "pixel_values",
    "image_grid_thw",
    "num_images",
    "pixel_attention_mask",
    "spatial_shapes",
    "num_tiles",
    "image_sizes",
    "token_type_ids",
    "mm_token_type_ids",
    "image_position_ids",
)


def asked(estimator: Any, reward: Any = None) -> tuple[str, ...]:
    """Return the token columns that a remedy needs of a generation; none costs nothing."""
    if isinstance(reward, Intuitor):
        return ("certainty",)
    if isinstance(reward, Rent):
        return ("entropy",)
    wanted = set(getattr(estimator, "wanted", ()))
    names = [] if wanted.isdisjoint({"entropy", "entropy_max"}) else ["entropy"]
    if isinstance(estimator, TokenEstimator):
        names += [*estimator.needs, *estimator.takes]
    return tuple(dict.fromkeys(names))


def loss_mask(inputs: Mapping[str, Any]) -> Any:
    """Return 1 on the tokens that count in TRL's loss: no padding, no tool output."""
    mask = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask


def token_logps(trainer: Any, model: Any, inputs: Mapping[str, Any], **more: Any) -> Any:
    """Return TRL's log-probabilities, entropies and auxiliary loss, as its loss computes them."""
    ids, attention = _sequences(inputs)
    kept = inputs["completion_ids"].size(1)
    forward = {name: inputs.get(name) for name in FORWARD}
    return trainer._get_per_token_logps_and_entropies(
        model, ids, attention, kept, **more, **forward
    )


def _sequences(inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    import torch

    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    return ids, torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)


def local_columns(
    trainer: Any,
    rows: Sequence[Mapping[str, Any]],
    output: Mapping[str, Any],
    plan: Any,
) -> Any:
    """Return this rank's columns, float32 ``(row, 1 + column, token)``: the mask, then ``asks``.

    A value per row (`prior`) is repeated over its tokens.
    """
    import torch
    from trl.models.utils import disable_gradient_checkpointing

    mask, names = loss_mask(output), plan.asks
    found: dict[str, Any] = {"ref_logp": output.get("ref_per_token_logps")}
    size = trainer.args.per_device_train_batch_size
    settings = trainer.args.gradient_checkpointing_kwargs
    with torch.no_grad(), disable_gradient_checkpointing(trainer.model, settings):
        if not {"entropy", "logp", "belief"}.isdisjoint(names):
            found["logp"], found["entropy"], _ = token_logps(
                trainer, trainer.model, output, batch_size=size, compute_entropy=True
            )
        if "certainty" in names:
            found["certainty"] = _certainty(trainer, output, size)
        if plan.belief is not None:
            ends = segment_ends(_segments(plan.estimator, found["entropy"].float(), mask))
            found |= _beliefs(plan.belief(trainer, rows, output, ends), ends)
    columns = [mask, *(found[name] for name in names)]
    return torch.stack([one.to(mask.device, torch.float32) for one in columns], dim=1)


def _segments(estimator: Any, entropy: Any, mask: Any) -> Any:
    known = {
        name: getattr(estimator, name)
        for name in ("percentile", "per_segment")
        if hasattr(estimator, name)
    }
    return segments_by_entropy(entropy, mask, **known)


def _beliefs(answer: tuple[Any, Any], ends: Any) -> dict[str, Any]:
    import torch

    belief, prior = (torch.as_tensor(one, device=ends.device).detach() for one in answer)
    if belief.shape != ends.shape or prior.shape != ends.shape[:1]:
        raise UsageError(
            f"belief= must return shapes {tuple(ends.shape)} and {tuple(ends.shape[:1])}; "
            f"got {tuple(belief.shape)} and {tuple(prior.shape)}"
        )
    known = belief.float().masked_fill(~ends, math.nan)
    return {"belief": known, "prior": prior[:, None].expand(ends.shape)}


def _certainty(trainer: Any, output: Mapping[str, Any], size: int) -> Any:
    """Return the self-certainty of each token; TRL's own pass does not keep the logits."""
    import torch

    ids, attention = _sequences(output)
    kept = output["completion_ids"].size(1)
    parts = []
    for start in range(0, len(ids), size):
        chunk = slice(start, start + size)
        with trainer.accelerator.autocast():
            logits = trainer.model(input_ids=ids[chunk], attention_mask=attention[chunk]).logits
        # the logits of a token stand one place before it
        logits = logits[:, -kept - 1 : -1].float() / trainer.temperature
        parts.append(self_certainty(logits))
    return torch.cat(parts)


def gathered(trainer: Any, local: Any) -> Any:
    """Return the columns of all ranks, padded with 0 to one width; every rank must call it."""
    padded = trainer.accelerator.pad_across_processes(local, dim=2)
    return trainer.accelerator.gather(padded)


def named(stack: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of `gathered` by name: ``(sample, token)``, `prior` ``(sample,)``."""
    columns = dict(zip(("mask", *names), stack.unbind(dim=1), strict=True))
    columns["mask"] = columns["mask"] > 0
    if "prior" in columns:
        columns["prior"] = columns["prior"][:, 0]
    return columns


def per_sample(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Return `entropy` and `entropy_max` of each sample, NaN without tokens, where known."""
    if "entropy" not in tokens:
        return {}
    entropy, mask = tokens["entropy"], tokens["mask"]
    mean = to_numpy(mean_over_tokens(entropy, mask))
    largest = to_numpy(entropy.masked_fill(~mask, -math.inf).amax(dim=1))
    return {"entropy": mean, "entropy_max": np.where(np.isnan(mean), np.nan, largest)}


def estimate(estimator: Any, reward: Any, groups: Any, tokens: Mapping[str, Any] | None) -> Any:
    """Return the advantages of a remedy, with the token columns that it asked for."""
    if tokens is None:
        return estimator(groups)
    if reward is not None:
        values = next(values for name, values in tokens.items() if name != "mask")
        return estimator(groups.with_rewards(reward.of_tokens(values, tokens["mask"])))
    if not isinstance(estimator, TokenEstimator):
        return estimator(groups)
    # a belief stands at the ends of segments: cutting them again could end elsewhere
    used = {name: values for name, values in tokens.items() if not _cut_already(name, tokens)}
    return estimator(groups, TokenColumns(**used))


def _cut_already(name: str, tokens: Mapping[str, Any]) -> bool:
    return name == "entropy" and "belief" in tokens

"""Dynamic sampling inside TRL: generate until enough groups carry a signal, then train on those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.trl.loss import LIVE, SIGNAL
from buttress.hooks.trl.tokens import loss_mask
from buttress.remedies.registry import create, page
from buttress.remedies.sampling import DynamicSampling
from buttress.train.config import Training
from buttress.train.ranks import is_main, shared
from buttress.train.source import Source

# Estimators that look at one group at a time: the choice of the other groups changes nothing.
BY_GROUP = frozenset(
    {"dr_grpo", "f_grpo", "grpo", "krpo", "maxnorm_ac", "mcpo", "qae", "rloo", "sign"}
)

Place = tuple[int, int]  # batch of the step, group of the batch


def sampling_of(config: Training, source: Source) -> Any:
    """Return the way of sampling of a training, or None; raises `UsageError` where it cannot be."""
    if config.sampling is None:
        return None
    own, given = {"wanted": config.prompts, "keep_surplus": False}, config.sampling.options
    made = config.sampling.make()
    if not isinstance(made, DynamicSampling):
        return made
    made = create(config.sampling.name, **own | given)
    name = config.remedy.name
    if page(name).kind == "loss":
        name = config.remedy.make().advantage
    try:
        check(made, name, config.prompts)
    except UsageError as fault:
        raise source.fault(("sampling",), str(fault)) from None
    return made


def check(sampling: DynamicSampling, remedy: str, prompts: int) -> None:
    """Raise `UsageError` where a remedy or an option does not go with it."""
    if remedy not in BY_GROUP:
        raise UsageError(
            f"dynamic_sampling leaves tied groups out, and the advantages of {remedy!r} depend on "
            f"the whole batch or on tied groups; it goes with {', '.join(sorted(BY_GROUP))}"
        )
    if sampling.keep_surplus:
        raise UsageError(
            "keep_surplus = true keeps rollouts between steps, which no checkpoint holds; "
            "set it to false"
        )
    if sampling.on_limit == "short":
        raise UsageError("TRL needs a full batch: set on_limit to 'fill' or 'raise'")
    if sampling.wanted != prompts:
        raise UsageError(
            f"dynamic_sampling wants {sampling.wanted} groups and the training has prompts = "
            f"{prompts}; leave wanted out"
        )


def fill(
    trainer: Any,
    management: Any,
    sampling: DynamicSampling,
    generate: Callable[[Any], dict[str, Any]],
    count: int,
) -> dict[str, Any]:
    """Return this rank's part of a batch of groups that carry a signal, as TRL makes one.

    Every generated batch is logged; what TRL and the remedy measured of it stays in the metrics.
    """
    batches: list[dict[str, Any]] = []
    full = False
    while not full:
        batches.append(generate(management.rows(trainer, count)))
        full = shared(lambda: _offer(management, sampling, len(batches) - 1))
    places: list[Place] = shared(sampling.take)
    if is_main():
        for name, value in sampling.reading.items():
            trainer._metrics["train"][f"buttress/sampling/{name}"].append(float(value))
    return gathered(trainer, batches, places)


def _offer(management: Any, sampling: DynamicSampling, batch: int) -> bool:
    groups = management.log.last
    sampling.offer(groups, [(batch, group) for group in range(len(groups))])
    return sampling.full


def gathered(
    trainer: Any, batches: Sequence[dict[str, Any]], places: Sequence[Place]
) -> dict[str, Any]:
    """Return the chosen groups of several generations as one, spread over the ranks in order."""
    from accelerate.utils import gather_object

    size, rank = trainer.num_generations, trainer.accelerator.process_index
    share = len(batches[0]["advantages"])
    device = batches[0]["advantages"].device
    wanted = [(batch, group * size + at) for batch, group in places for at in range(size)]
    own = [
        (number, _row(batches[batch], row - rank * share))
        for number, (batch, row) in enumerate(wanted)
        if row // share == rank
    ]
    rows = dict(gather_object(own))
    per_rank = len(wanted) // trainer.accelerator.num_processes
    mine = [rows[number] for number in range(rank * per_rank, (rank + 1) * per_rank)]
    output = {name: _stacked(name, [row[name] for row in mine], device) for name in mine[0]}
    return output | _counts(trainer, output)


def _counts(trainer: Any, output: dict[str, Any]) -> dict[str, Any]:
    """Return the counts over all ranks that a loss divides by."""
    tokens = loss_mask(output).sum(dim=1)
    gather = trainer.accelerator.gather
    counts = {"num_items_in_batch": gather(tokens.sum().reshape(1)).sum()}
    if SIGNAL in output:
        loss = trainer._buttress.plan.loss
        live = output[SIGNAL].float()
        if loss is not None and loss.aggregation == "token_mean":
            live = live * tokens
        counts[LIVE] = gather(live.sum().reshape(1)).sum()
    return counts


def _row(output: dict[str, Any], at: int) -> dict[str, Any]:
    """Return one row of a generation on the CPU."""
    count = len(output["advantages"])
    return {
        name: values[at].cpu()
        for name, values in output.items()
        if hasattr(values, "shape") and values.ndim > 0 and len(values) == count
    }


def _stacked(name: str, rows: list[Any], device: Any) -> Any:
    """Return rows as one tensor: prompts are padded on the left, everything else on the right."""
    import torch
    from torch.nn.functional import pad

    if rows[0].ndim == 0:
        return torch.stack(rows).to(device)
    width = max(len(row) for row in rows)
    left = name.startswith("prompt")
    padded = [pad(row, (width - len(row), 0) if left else (0, width - len(row))) for row in rows]
    return torch.stack(padded).to(device)

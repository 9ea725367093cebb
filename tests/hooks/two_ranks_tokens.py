"""Losses and token remedies on two ranks, for `two_ranks`."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from buttress.measures import GroupSummary
from tests.hooks import tiny

RANK = int(os.environ.get("RANK", "0"))
# greedy, so that a row gets the same completion on one rank and on two
LOSS_SETTINGS: dict[str, Any] = {
    "max_steps": 2,
    "num_generations": 4,
    "optim": "sgd",
    "learning_rate": 0.3,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1e9,
    "top_k": 1,
}
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "sum": ("dcpo_clip", {}),
    "signal": ("ppo_clip", {"denominator": "signal"}),
    "tokens": ("dapo", {}),
}
# one tied group, one mixed, and one of both over the middle
REWARDS = tiny.Script(
    [
        [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.5, 0.0],
    ]
)


class OffCentre:
    """r - 0.3 in groups that are not tied: equal completions then do not cancel out."""

    def __init__(self) -> None:
        self.reading: dict[str, Any] = {}

    def __call__(self, groups: Any) -> Any:
        live = GroupSummary.of(groups).mixed[groups.group_of]
        return (groups.rewards - 0.3) * live

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        pass


def build(folder: Path, rows_per_rank: int, **settings: Any) -> Any:
    """Return a trainer of two steps with 12 rows in all."""
    settings = LOSS_SETTINGS | {"per_device_train_batch_size": rows_per_rank} | settings
    return tiny.trainer(folder, REWARDS, **settings)


def parameters(trainer: Any) -> list[float]:
    """Return every 50th parameter."""
    import torch

    return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])[::50].tolist()


def trained(folder: Path, rows_per_rank: int, name: str | None, **settings: Any) -> dict[str, Any]:
    """Return what training with one of `LOSSES` comes to; with TRL's own loss for None."""
    from buttress.hooks.trl import attach
    from buttress.remedies import create

    trainer = build(folder, rows_per_rank, **settings)
    loss = None
    if name is not None:
        kind, options = LOSSES[name]
        loss = create(kind, **options)
    attach(trainer, OffCentre(), loss=loss)
    start = parameters(trainer)
    trainer.train()
    end = parameters(trainer)
    moved = max(abs(a - b) for a, b in zip(start, end, strict=True))
    metrics = ("buttress/loss_fallback", "entropy", "clip_ratio/low_mean", "grad_norm")
    return {"end": end, "moved": moved} | {one: tiny.logged(trainer, one) for one in metrics}


def losses(folder: Path) -> dict[str, Any]:
    found = {name: trained(folder, 6, name) for name in LOSSES}
    return found | {"trl": trained(folder, 6, None, epsilon_high=0.28)}


def one_rank_faulty_loss(folder: Path) -> dict[str, Any]:
    """The second rank cannot compute the loss of the first step."""
    from buttress.hooks.trl import loss as trl_loss

    value, calls = trl_loss._value, []

    def value_or_fail(*args: Any) -> Any:
        calls.append(1)
        if RANK == 1 and len(calls) == 1:
            raise RuntimeError("no loss here")
        return value(*args)

    trl_loss._value = value_or_fail
    found = trained(folder, 6, "tokens", epsilon_high=0.28)
    trl_loss._value = value
    return found


def by_tokens(folder: Path) -> dict[str, Any]:
    """Token advantages on both ranks, whose completions differ in width."""
    from buttress.hooks.trl import attach

    found = {}
    for name, settings in (("rl_zvp", {}), ("ep_grpo", {"beta": 0.1}), ("edge_grpo", {})):
        trainer = build(folder / name, 6, top_k=0, **settings)
        if RANK == 1:
            trainer.generation_config.max_new_tokens = 4
        outputs = direct(attach(trainer, name))
        trainer.train()
        found[name] = {"outputs": outputs, "fallback": tiny.logged(trainer, "buttress/fallback")}
    return found


def direct(trainer: Any) -> list[dict[str, Any]]:
    """Return a list that will hold the advantages of each generation, and what they rest on.

    The log-probabilities and entropies are computed here from plain logits, without TRL's code.
    """
    import torch

    seen: list[dict[str, Any]] = []
    generate = trainer._generate_and_score_completions

    def look(model: Any, output: Any) -> dict[str, Any]:
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask).logits.double()
        width = output["completion_ids"].shape[1]
        log = (logits[:, -width - 1 : -1] / trainer.temperature).log_softmax(-1)
        chosen = log.gather(-1, output["completion_ids"][..., None])[..., 0]
        return {
            "logp": chosen,
            "entropy": -(log.exp() * log).sum(-1),
            "certainty": -log.mean(-1) - math.log(log.shape[-1]),
        }

    def generate_and_look(inputs: Any) -> Any:
        output = generate(inputs)
        row = {"advantages": output["advantages"], "mask": output["completion_mask"]}
        row |= look(trainer.model, output)
        if trainer.ref_model is not None:
            row["ref_logp"] = look(trainer.ref_model, output)["logp"]
        seen.append({name: values.tolist() for name, values in row.items()})
        return output

    trainer._generate_and_score_completions = generate_and_look
    return seen


SCENARIOS = (losses, one_rank_faulty_loss, by_tokens)

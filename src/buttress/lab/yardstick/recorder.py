"""Record short training runs of the laboratory: what the yardstick's corpus is made from.

    python -m buttress.lab.yardstick.recorder FOLDER

The trainer is not told: the problems note which of them were drawn and what was sampled, the loss
notes its value, and the weights note the size of their gradients.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems
from buttress.lab.policy_training import Setting, train_policy
from buttress.lab.starts import STARTS, Start, problem_sets, starting_point
from buttress.lab.tasks import vocabulary
from buttress.lab.yardstick.recording import Recording
from buttress.remedies.losses import PpoClip
from buttress.remedies.losses.base import k3


@dataclass
class Notes:
    """What was seen of a run, step after step."""

    drawn: list[NDArray[np.int64]] = field(default_factory=list)
    sampled: list[Tensor] = field(default_factory=list)
    loss: list[list[float]] = field(default_factory=list)
    kl: list[list[float]] = field(default_factory=list)
    square: float = 0.0
    grad_norm: list[list[float]] = field(default_factory=list)
    blind_from: int | None = None  # the verdicts are 0 from this step on


@dataclass(frozen=True)
class NotedProblems(Problems):
    """Problems that note which of them are asked and what is answered."""

    notes: Notes = field(default_factory=Notes)
    index: NDArray[np.int64] | None = None

    def select(self, index: NDArray[np.int64]) -> Problems:
        return NotedProblems(
            self.prompt[index], self.answer[index], self.end, self.notes, np.asarray(index)
        )

    def right(self, sampled: Tensor) -> Tensor:
        notes = self.notes
        assert self.index is not None
        notes.drawn.append(self.index)
        notes.sampled.append(sampled.clone())
        for series in (notes.loss, notes.kl, notes.grad_norm):
            series.append([])
        right = super().right(sampled)
        blind = notes.blind_from is not None and len(notes.drawn) > notes.blind_from
        return torch.zeros_like(right) if blind else right


@dataclass(kw_only=True, eq=False)
class NotedLoss(PpoClip):
    """GRPO's loss, which notes its value and the divergence from the reference."""

    notes: Notes = field(default_factory=Notes)

    def __call__(self, logp: Any, old_logp: Any, advantages: Any, mask: Any, **more: Any) -> Any:
        value = super().__call__(logp, old_logp, advantages, mask, **more)
        self.notes.loss[-1].append(value.item())
        if more.get("ref_logp") is not None:
            apart = k3(logp.detach(), more["ref_logp"])
            self.notes.kl[-1].append(float((apart * mask).sum() / mask.sum()))
        self.notes.square = 0.0
        return value


@dataclass(frozen=True)
class Plan:
    """One run to record, `first` steps of which are trained and not kept."""

    start: str
    method: str = "grpo"
    seed: int = 0
    lr: float = 1e-4
    train: int = 256
    updates: int = 1
    beta: float = 0.0
    steps: int = 40
    first: int = 0
    blind: bool = False  # no verdict is ever positive after `first`
    trained: str = ""  # begin with the weights at the end of this plan


PLANS = {
    "learns": Plan("acr45"),
    "learns_dr": Plan("acr45", "dr_grpo", seed=1, first=4),
    "learns_rloo": Plan("acr30", "rloo", seed=2, lr=6e-5),
    "learns_kl": Plan("acr45", seed=3, beta=0.04, first=4),
    "learns_avspo": Plan("acr30", "avspo", seed=4, lr=6e-5),
    "off_policy": Plan("acr30", seed=5, updates=4, lr=3e-5),
    "few_prompts": Plan("acr30", seed=6, train=24, lr=8e-5),
    "masters": Plan("acr45", seed=7, lr=2e-4, steps=120),
    "solved": Plan("acr45", seed=8, lr=1e-5, trained="masters", train=200),
    "hard": Plan("acr95", seed=9, lr=1e-5),
    "harder": Plan("acr95", "dr_grpo", seed=10, lr=5e-6),
    "still": Plan("acr30", seed=11, lr=0.0, train=64),
    "pulled": Plan("acr45", seed=12, beta=0.1, first=20, blind=True),
}


def record(name: str) -> Recording:
    """Train one plan and return its recording."""
    return _trained(name)[0]


@cache
def _trained(name: str) -> tuple[Recording, Decoder]:
    plan, start = PLANS[name], STARTS[PLANS[name].start]
    assert isinstance(start, Start)
    decoder = copy.deepcopy(_trained(plan.trained)[1] if plan.trained else _start(plan.start))
    problems, held_out = problem_sets(start, plan.seed, train=plan.train, held_out=8)
    recorded, decoder = record_run(name, plan, decoder, problems, held_out, vocabulary(start.task))
    return recorded, decoder


def record_run(
    name: str,
    plan: Plan,
    decoder: Decoder,
    problems: Problems,
    held_out: Problems,
    symbols: list[str],
) -> tuple[Recording, Decoder]:
    """Train a decoder in place and return what was recorded, and the decoder."""
    torch.manual_seed(plan.seed)
    notes = Notes(blind_from=plan.first if plan.blind else None)
    asked = NotedProblems(problems.prompt, problems.answer, problems.end, notes)
    setting = Setting(
        plan.method,
        loss=NotedLoss(beta=plan.beta, notes=notes),
        seed=plan.seed,
        lr=plan.lr,
        warmup=2,
        updates=plan.updates,
        steps=plan.first + plan.steps,
        evaluate_every=10**6,
        tries=1,
    )
    handles = [
        weight.register_post_accumulate_grad_hook(_note_gradient(notes))
        for weight in decoder.parameters()
    ]
    rates = [setting.lr * min(1.0, (at + 1) / 2) for at in range(setting.steps)]
    history = train_policy(decoder, asked, held_out, setting)
    for handle in handles:
        handle.remove()
    kept = slice(plan.first, None)
    scalars = {
        "loss": _means(notes.loss),
        "grad_norm": _means(notes.grad_norm),
        "learning_rate": np.array(rates),
        "entropy": np.array(history.steps["entropy"]),
    }
    if plan.beta:
        scalars["kl"] = _means(notes.kl)
    drawn = np.concatenate(notes.drawn[kept])
    steps = np.repeat(np.arange(1, plan.steps + 1), len(notes.drawn[0]))
    texts = _texts(torch.cat(notes.sampled[kept]), symbols)
    return Recording(
        name,
        plan.method,
        "exact",
        problems.answer.shape[1],
        steps,
        _texts(problems.prompt[drawn], symbols),
        _texts(problems.answer[drawn], symbols),
        texts,
        np.full(texts.shape, problems.answer.shape[1]),
        np.ones(texts.shape, dtype=bool),
        {name: one[kept] for name, one in scalars.items()},
    ), decoder


@cache
def _start(name: str) -> Decoder:
    return starting_point(STARTS[name])


def _note_gradient(notes: Notes) -> Any:
    """Return a hook that adds up the squared gradient; the sum is complete when all have run."""

    def note(weight: Tensor) -> None:
        assert weight.grad is not None
        if not notes.square:
            notes.grad_norm[-1].append(0.0)
        notes.square += float(weight.grad.square().sum())
        notes.grad_norm[-1][-1] = notes.square**0.5

    return note


def _means(series: list[list[float]]) -> NDArray[np.float64]:
    return np.array([np.mean(one) if one else np.nan for one in series])


def _texts(tokens: Tensor, symbols: list[str]) -> NDArray[np.object_]:
    flat = ["".join(symbols[one] for one in row) for row in tokens.flatten(0, -2).tolist()]
    return np.array(flat, dtype=object).reshape(tokens.shape[:-1])


def main(folder: str) -> None:
    """Record every plan of this module, and the runs of TRL, into a folder."""
    from buttress.lab.yardstick.trl_recorder import TRL_PLANS, record_trl

    torch.set_num_threads(1)
    for name in PLANS:
        path = record(name).save(Path(folder))
        sys.stderr.write(f"{path} {path.stat().st_size}\n")
    for name in TRL_PLANS:
        path = record_trl(name).save(Path(folder))
        sys.stderr.write(f"{path} {path.stat().st_size}\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""Starting points of a chosen collapse rate: what an experiment's runs begin from.

How often a model gives the right answer decides how many groups collapse: with success rate p about
``p^G + (1 - p)^G`` of them. A supervised fit to demonstrations with a chosen share of right answers
sets p. For `latent-skill` at the shipped size that fit is short and begins from the shipped
checkpoint, which leaves what the model can do as it was; every other starting point is fitted from
random weights, once, and kept in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import torch

from buttress.lab import decoder
from buttress.lab.checkpoint import CHECKPOINTS
from buttress.lab.decoder import Decoder, Layout, Shape
from buttress.lab.evaluation import Problems
from buttress.lab.language_model import Sums, smollm2, sum_problems, sums_tokenizer
from buttress.lab.tasks import (
    Addition,
    LatentSkill,
    Maze,
    Modular,
    Multiplication,
    Parity,
    Problem,
    Task,
    encode,
    vocabulary,
)

TRAIN_PROBLEMS, HELD_OUT_PROBLEMS = 256, 400


@dataclass(frozen=True, slots=True)
class Fit:
    """How long and how fast: `steps` batches of `batch` demonstrations at peak rate `rate`."""

    steps: int = 300
    batch: int = 128
    rate: float = 3e-4


@dataclass(frozen=True, slots=True)
class Size:
    """Width and depth of a decoder; its parameters, embeddings apart, are ``~12 layers width²``."""

    width: int = 96
    layers: int = 2
    heads: int = 4

    def shape(self, symbols: int) -> Shape:
        """Return the decoder's shape for a vocabulary."""
        inner = round(self.width * 8 / 3 / 32) * 32
        return Shape(symbols, self.width, self.layers, self.heads, inner)


@dataclass(frozen=True, slots=True)
class Start:
    """A starting point: a task at a share of right answers, and the ACR that a model then has.

    `acr` is what groups of 8 at temperature 1 show, within a few hundredths.
    """

    name: str
    task: Task
    acr: float
    size: Size = Size()
    fit: Fit = field(default_factory=Fit)
    shipped: bool = True


@dataclass(frozen=True, slots=True)
class SumsStart:
    """SmolLM2-135M-Instruct on sums, of which the last `layers` layers are trained."""

    name: str
    sums: Sums
    acr: float
    layers: int = 6


def _skill(name: str, share: float, acr: float) -> Start:
    return Start(name, LatentSkill(share=share), acr)


def _fresh(name: str, task: Task, acr: float, size: Size = Size(), steps: int = 2000) -> Start:
    return Start(name, task, acr, size, Fit(steps, 128, 1e-3), shipped=False)


STARTS = MappingProxyType(
    {
        start.name: start
        for start in (
            _skill("acr30", 0.247, 0.30),
            _skill("acr45", 0.176, 0.45),
            _skill("acr80", 0.0575, 0.80),
            _skill("acr95", 0.013, 0.95),
            _fresh("acr80-width48", LatentSkill(share=0.0575), 0.80, Size(48, 2, 4)),
            _fresh("acr80-width192", LatentSkill(share=0.0575), 0.80, Size(192, 2, 4)),
            _fresh("addition", Addition(digits=2, share=0.12), 0.60),
            _fresh("multiplication", Multiplication(digits=2, share=0.12), 0.60),
            _fresh("modular", Modular(modulus=97, share=0.12), 0.60),
            _fresh("parity", Parity(width=14, share=0.12), 0.60),
            _fresh("maze", Maze(share=0.12), 0.60),
            _fresh("solved", LatentSkill(share=0.95), 0.70),
            SumsStart("smollm2-sums", Sums(10, 100), 0.45),
        )
    }
)


def starting_point(start: Start | SumsStart, seed: int = 0) -> Decoder:
    """Return a decoder at a starting point, made or out of the cache."""
    if isinstance(start, SumsStart):
        return smollm2(layers=start.layers)
    if start.shipped:
        torch.manual_seed(seed)
        return fit(decoder.load(CHECKPOINTS / "latent-skill"), start.task, start.fit, seed)
    torch.manual_seed(seed)
    model = Decoder(start.size.shape(len(vocabulary(start.task))))
    known = repr((start.task, start.size, start.fit, seed, torch.__version__))
    kept = cache_directory() / f"{start.name}-{hashlib.sha256(known.encode()).hexdigest()[:12]}.pt"
    if kept.exists():
        model.load_state_dict(torch.load(kept, weights_only=True))
        return model
    fit(model, start.task, start.fit, seed)
    kept.parent.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")
    torch.save(model.state_dict(), unfinished)
    unfinished.replace(kept)
    return model


def fit(model: Decoder, task: Task, how: Fit, seed: int = 0) -> Decoder:
    """Fit a decoder to the demonstrations of a task, in place, and return it."""
    lines = task.demonstrations(how.steps * how.batch, seed=seed + 1)
    prompt = torch.from_numpy(encode(task, [line.prompt for line in lines]))
    answer = torch.from_numpy(encode(task, [line.answer for line in lines]))
    row = torch.cat([prompt, answer], dim=1)
    width = prompt.shape[1]
    layout = Layout.of(model.shape, row.shape[1] - 1, 0, 0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=how.rate, fused=True)
    for step, batch in enumerate(row.split(how.batch)):
        share = min(1.0, (step + 1) / 20, 1.05 - step / how.steps)
        optimiser.param_groups[0]["lr"] = how.rate * share
        logits = model(batch[:, :-1], layout)[:, width - 1 :]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, width:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return model


def problem_sets(
    start: Start | SumsStart, seed: int, *, train: int | None = None, held_out: int | None = None
) -> tuple[Problems, Problems]:
    """Return training problems of a seed and the held-out problems, which are always the same."""
    n, m = train or TRAIN_PROBLEMS, held_out or HELD_OUT_PROBLEMS
    if isinstance(start, SumsStart):
        tokenizer = sums_tokenizer()
        pairs = start.sums.pairs(n, held_out=False, seed=seed)
        asked = start.sums.pairs(m, held_out=True, seed=0)
        return sum_problems(tokenizer, pairs), sum_problems(tokenizer, asked)
    task = start.task
    return (
        encoded(task, task.problems(n, split="train", seed=seed)),
        encoded(task, task.problems(m, split="held_out", seed=0)),
    )


def encoded(task: Task, problems: list[Problem]) -> Problems:
    """Return problems as token ids."""
    return Problems(
        torch.from_numpy(encode(task, [problem.prompt for problem in problems])),
        torch.from_numpy(encode(task, [problem.answer for problem in problems])),
    )


def cache_directory() -> Path:
    """Return where fitted starting points are kept, below ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "buttress" / "starts"

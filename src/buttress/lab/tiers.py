"""Starting points of a chosen collapse rate: the shipped checkpoint, tuned to use its skill more.

How often a model gives the right answer decides how many groups collapse: with success rate p about
``p^G + (1 - p)^G`` of them. A short supervised fit to demonstrations with another share of right
answers moves p, and leaves what the model can do as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from buttress.lab import decoder
from buttress.lab.checkpoint import CHECKPOINTS
from buttress.lab.decoder import Decoder, Layout
from buttress.lab.evaluation import Problems
from buttress.lab.tasks import LatentSkill, make_tokenizer

STEPS, BATCH, RATE = 300, 128, 3e-4
TRAIN_PROBLEMS, HELD_OUT_PROBLEMS = 256, 400


@dataclass(frozen=True, slots=True)
class Tier:
    """A starting point: the share of right answers that it is fitted to, and the ACR it then has.

    `acr` is what groups of 8 at temperature 1 show, within a few hundredths.
    """

    name: str
    share: float
    acr: float


TIERS = MappingProxyType(
    {
        tier.name: tier
        for tier in (
            Tier("acr30", 0.247, 0.30),
            Tier("acr45", 0.176, 0.45),
            Tier("acr80", 0.0575, 0.80),
            Tier("acr95", 0.013, 0.95),
        )
    }
)


def starting_point(tier: Tier, seed: int = 0) -> Decoder:
    """Return a decoder at a tier: the shipped checkpoint, fitted to the tier's share."""
    torch.manual_seed(seed)
    model = decoder.load(CHECKPOINTS / "latent-skill")
    task = LatentSkill(share=tier.share)
    lines = task.demonstrations(STEPS * BATCH, seed=seed + 1)
    prompt = encode(task, [line.prompt for line in lines])
    answer = encode(task, [line.answer for line in lines])
    row = torch.cat([prompt, answer], dim=1)
    width = prompt.shape[1]
    layout = Layout.of(model.shape, row.shape[1] - 1, 0, 0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    for step, batch in enumerate(row.split(BATCH)):
        optimiser.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / 20, 1.05 - step / STEPS)
        logits = model(batch[:, :-1], layout)[:, width - 1 :]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, width:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return model


def problem_sets(seed: int) -> tuple[Problems, Problems]:
    """Return training problems of a seed and the held-out problems, which are always the same."""
    task = LatentSkill()
    sets = (
        task.problems(TRAIN_PROBLEMS, split="train", seed=seed),
        task.problems(HELD_OUT_PROBLEMS, split="held_out", seed=0),
    )
    train, held_out = (
        Problems(
            encode(task, [problem.prompt for problem in problems]),
            encode(task, [problem.answer for problem in problems]),
        )
        for problems in sets
    )
    return train, held_out


def encode(task: LatentSkill, texts: list[str]) -> torch.Tensor:
    """Return the token ids of texts of one length, ``(text, token)``."""
    vocabulary = make_tokenizer(task).get_vocab()
    return torch.from_numpy(np.array([[vocabulary[one] for one in text] for text in texts]))

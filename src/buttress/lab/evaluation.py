"""How good is a policy? Greedy accuracy and pass@k on held-out problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from buttress.lab.decoder import Decoder
from buttress.lab.rollout import sample
from buttress.measures import pass_at_k


@dataclass(frozen=True)
class Problems:
    """Token ids of problems of one shape, each with one right answer.

    Attributes
    ----------
    prompt, answer
        ``(problem, token)``. A shorter answer is filled up with anything after its end.
    end
        The token that ends an answer; None where all have the full width.
    """

    prompt: Tensor
    answer: Tensor
    end: int | None = None

    def __len__(self) -> int:
        return len(self.prompt)

    def select(self, index: NDArray[np.int64]) -> Problems:
        """Return the problems that the index names."""
        return Problems(self.prompt[index], self.answer[index], self.end)

    def right(self, sampled: Tensor) -> Tensor:
        """Return which of the sampled answers ``(problem, sample, token)`` are right."""
        answer = self.answer.unsqueeze(1)
        return ((sampled == answer) | ~self.written(answer)).all(-1)

    def written(self, answer: Tensor) -> Tensor:
        """Return which tokens of answers ``(..., token)`` count: those up to the first end."""
        if self.end is None:
            return torch.ones_like(answer, dtype=torch.bool)
        ended = (answer == self.end).cumsum(-1)
        return (ended == 0) | ((ended == 1) & (answer == self.end))


def evaluate(
    decoder: Decoder, problems: Problems, *, seed: int, tries: int = 16, batch: int = 200
) -> dict[str, float]:
    """Return ``greedy``, ``pass@1``, ``pass@4`` and ``pass@16`` (as far as `tries` reach).

    pass@k is sampled at temperature 1.
    """
    noise = torch.Generator().manual_seed(seed)
    greedy, wins = [], []
    for start in range(0, len(problems), batch):
        part = problems.select(np.arange(start, min(start + batch, len(problems))))
        width = part.answer.shape[1]
        one = sample(decoder, part.prompt, 1, width, generator=noise, temperature=0.0)
        many = sample(decoder, part.prompt, tries, width, generator=noise)
        greedy.append(part.right(one.answer).squeeze(1))
        wins.append(part.right(many.answer).sum(-1))
    successes = torch.cat(wins).numpy()
    ks = [k for k in (1, 4, 16, 64, 256) if k <= tries]
    found = {f"pass@{k}": float(pass_at_k(successes, tries, k).mean()) for k in ks}
    return {"greedy": float(torch.cat(greedy).double().mean()), **found}

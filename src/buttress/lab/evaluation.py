"""How good is a policy? Greedy accuracy and pass@k on held-out problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from torch import Tensor

from buttress.lab.decoder import Decoder
from buttress.lab.rollout import sample


@dataclass(frozen=True)
class Problems:
    """Token ids of problems of one shape, each with one right answer."""

    prompt: Tensor  # (problem, token)
    answer: Tensor  # (problem, token)

    def __len__(self) -> int:
        return len(self.prompt)

    def select(self, index: NDArray[np.int64]) -> Problems:
        """Return the problems that the index names."""
        return Problems(self.prompt[index], self.answer[index])


def pass_at_k(successes: ArrayLike, tries: int, k: int) -> NDArray[np.float64]:
    """Return the unbiased estimate of pass@k per problem.

    ``1 - C(n - c, k) / C(n, k)`` for c successes in n tries.

    Source: Chen et al., arXiv 2107.03374, equation 1.

    Examples
    --------
    >>> pass_at_k([0, 1, 4], 4, 2).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    failures = tries - np.asarray(successes, dtype=np.float64)
    enough = failures >= k
    left = np.where(enough, failures, k)
    log_miss = (
        gammaln(left + 1) - gammaln(left - k + 1) - gammaln(tries + 1) + gammaln(tries - k + 1)
    )
    return 1 - np.where(enough, np.exp(log_miss), 0.0)


def evaluate(
    decoder: Decoder, problems: Problems, *, seed: int, tries: int = 16, batch: int = 200
) -> dict[str, float]:
    """Return ``greedy``, ``pass@1``, ``pass@4`` and ``pass@16`` (as far as `tries` reach).

    pass@k is sampled at temperature 1.
    """
    noise = torch.Generator().manual_seed(seed)
    greedy, wins = [], []
    for start in range(0, len(problems), batch):
        prompt = problems.prompt[start : start + batch]
        answer = problems.answer[start : start + batch]
        one = sample(decoder, prompt, 1, answer.shape[1], generator=noise, temperature=0.0)
        many = sample(decoder, prompt, tries, answer.shape[1], generator=noise)
        greedy.append((one.answer == answer[:, None]).all(-1).squeeze(1))
        wins.append((many.answer == answer[:, None]).all(-1).sum(-1))
    successes = torch.cat(wins).numpy()
    ks = [k for k in (1, 4, 16, 64, 256) if k <= tries]
    found = {f"pass@{k}": float(pass_at_k(successes, tries, k).mean()) for k in ks}
    return {"greedy": float(torch.cat(greedy).double().mean()), **found}

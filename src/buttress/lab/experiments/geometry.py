"""The shape of the success rate of single prompts: gradients, curvature, and how they relate.

Source of the questions: arXiv 2601.23135 (only its abstract could be read); the definitions are
ours.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from buttress.lab.decoder import Decoder
from buttress.lab.evaluation import Problems
from buttress.lab.rollout import Rollouts, token_logps


def success_rate(decoder: Decoder, problem: Problems) -> Tensor:
    """Return the exact chance of the right answer to one problem, with its gradient."""
    rollouts = Rollouts(
        torch.cat([problem.prompt, problem.answer], dim=1), problem.answer.unsqueeze(1)
    )
    return token_logps(decoder, rollouts, problem.prompt.shape[1])[0].sum().exp()


def geometry(decoder: Decoder, problems: Problems) -> dict[str, float]:
    """Return how curvature goes with ``p (1 - p)`` and how parallel the gradients are.

    Curvature is ``|H g| / |g|`` with g the gradient of a prompt's p and H its Hessian.

    Returns
    -------
    dict
        ``problems``, ``mean p``, ``rank correlation`` of curvature and p (1 - p), ``mean |cosine|``
        between the gradients of two prompts.
    """
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]
    rates, bends, slopes = [], [], []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for place in range(len(problems)):
            p = success_rate(decoder, problems.select(np.array([place])))
            gradient = torch.autograd.grad(p, weights, create_graph=True)
            flat = torch.cat([part.flatten() for part in gradient])
            unit = (flat / flat.norm()).detach()
            turned = torch.autograd.grad(flat @ unit, weights)
            bends.append(torch.cat([part.flatten() for part in turned]).norm().item())
            rates.append(p.item())
            slopes.append(unit)
    matrix = torch.stack(slopes)
    cosine = (matrix @ matrix.T).abs()
    apart = cosine[~torch.eye(len(problems), dtype=torch.bool)]
    p = np.array(rates)
    return {
        "problems": len(problems),
        "mean p": float(p.mean()),
        "rank correlation": float(spearmanr(p * (1 - p), bends).statistic),
        "mean |cosine|": float(apart.mean()),
    }

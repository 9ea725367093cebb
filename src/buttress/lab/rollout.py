"""Sampling from the tiny decoder: groups of completions behind one prompt, and greedy answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from buttress.lab.decoder import Decoder, Layout


@dataclass(frozen=True, slots=True)
class Rollouts:
    """G completions of each of N prompts.

    Attributes
    ----------
    row
        ``(prompt, token)`` as `Layout` arranges it: the input of the training forward pass.
    answer
        ``(prompt, completion, token)`` the sampled tokens.
    """

    row: Tensor
    answer: Tensor

    def select(self, prompts: slice) -> Rollouts:
        """Return the completions of some prompts."""
        return Rollouts(self.row[prompts], self.answer[prompts])


@torch.no_grad()
def sample(
    decoder: Decoder,
    prompt: Tensor,
    group: int,
    answer: int,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> Rollouts:
    """Sample `group` completions of `answer` tokens for each prompt ``(prompt, token)``.

    Tokens are drawn by the Gumbel maximum, from the policy at this temperature; 0 is greedy.
    """
    n, width = prompt.shape
    layout = Layout.of(decoder.shape, width, group, answer)
    cache = decoder.new_cache(n, width + group * answer)
    logits = decoder(prompt, layout, cache=cache)[:, -1:].expand(n, group, -1)
    row, drawn = [prompt], []
    for place in range(answer):
        if place:
            at = width + (place - 1) * group
            logits = decoder(drawn[-1], layout, cache=cache, at=at)
        drawn.append(_draw(logits, temperature, generator))
        row.append(drawn[-1])
    return Rollouts(torch.cat(row, dim=1), torch.stack(drawn, dim=-1))


def token_logps(
    decoder: Decoder, rollouts: Rollouts, prompt_width: int, *, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of the sampled tokens, each ``(rollout, token)``.

    Rollouts stand group after group. Entropies carry no gradient.
    """
    logits = token_logits(decoder, rollouts, prompt_width)
    logp = (logits / temperature).log_softmax(-1)
    taken = logp.gather(-1, rollouts.answer.flatten(0, 1).unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.detach().exp() * logp.detach()).sum(-1)
    return taken, entropy


def token_logits(decoder: Decoder, rollouts: Rollouts, prompt_width: int) -> Tensor:
    """Return the logits behind each sampled token, ``(rollout, token, vocabulary)``."""
    n, group, answer = rollouts.answer.shape
    layout = Layout.of(decoder.shape, prompt_width, group, answer)
    # the last tokens predict nothing that was sampled
    logits = decoder(rollouts.row[:, :-group], layout)
    first = logits[:, prompt_width - 1 : prompt_width].unsqueeze(2).expand(n, 1, group, -1)
    rest = logits[:, prompt_width:].view(n, answer - 1, group, logits.shape[-1])
    return torch.cat([first, rest], dim=1).transpose(1, 2).flatten(0, 1).float()


@torch.no_grad()
def answer_logps(decoder: Decoder, prompt: Tensor, answer: Tensor) -> Tensor:
    """Return the log-probability of each token of given answers, ``(prompt, token)``."""
    rollouts = Rollouts(torch.cat([prompt, answer], dim=1), answer.unsqueeze(1))
    return token_logps(decoder, rollouts, prompt.shape[1])[0]


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits.float()
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits / temperature - noise.log()).argmax(-1)

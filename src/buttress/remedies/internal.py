"""Internal rewards: what the policy's own certainty says of a response, without a verifier."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, nan
from typing import Any

from array_api_compat import array_namespace, device

from buttress.remedies import options
from buttress.remedies.registry import remedy

# Logits of this many numbers are worked on at a time.
CHUNK = 1 << 24


def self_certainty(logits: Any) -> Any:
    """Return ``KL(uniform ‖ p) = logsumexp(z) - mean(z) - log V`` of each token, in nats.

    0 for a uniform distribution, larger for a more certain one; unbounded. `logits` has the shape
    ``(..., V)``, a NumPy array or a torch tensor; the result has the shape ``(...)``.

    Source: arXiv 2505.19590 (whose code leaves out the constant log V).

    Examples
    --------
    >>> import numpy as np
    >>> self_certainty(np.log(np.array([[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]]))).round(4)
    array([0.    , 0.4298])
    """
    xp = array_namespace(logits)
    logits = _wide(logits)
    top = xp.max(logits, axis=-1)
    return _log_total(logits, top) + top - xp.mean(logits, axis=-1) - log(logits.shape[-1])


def token_entropy(logits: Any) -> Any:
    """Return ``-Σ p log p`` of each token, in nats; shapes as in `self_certainty`.

    A logit of minus infinity (a forbidden token) counts as probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> token_entropy(np.array([[0.0, 0.0], [0.0, -np.inf]])).round(4)
    array([0.6931, 0.    ])
    """
    xp = array_namespace(logits)
    logits = _wide(logits)
    top = xp.max(logits, axis=-1)
    total = _log_total(logits, top)
    apart = logits - xp.expand_dims(top, axis=-1)
    shown = apart > -1e30
    apart = xp.where(shown, apart, xp.zeros_like(apart))
    weight = xp.where(shown, xp.exp(apart - xp.expand_dims(total, axis=-1)), xp.zeros_like(apart))
    return total - xp.sum(weight * apart, axis=-1)


def mean_over_tokens(values: Any, mask: Any) -> Any:
    """Return the mean of ``(sample, token)`` over the tokens that the mask holds.

    NaN (unscorable) for a response without tokens.
    """
    xp = array_namespace(values)
    held = xp.astype(mask, xp.bool)
    count = xp.sum(xp.astype(held, values.dtype), axis=1)
    total = xp.sum(xp.where(held, values, xp.zeros_like(values)), axis=1)
    none = xp.full_like(count, nan)
    return xp.where(count > 0, total / xp.where(count > 0, count, xp.ones_like(count)), none)


@remedy("intuitor", "reward")
@dataclass(kw_only=True, eq=False)
class Intuitor:
    """Self-certainty as the reward: how far the policy's predictions are from uniform.

    ``r_i = mean over tokens of KL(uniform ‖ p_t) = mean_t (logsumexp(z_t) - mean(z_t) - log V)``

    Ties: the reward is real-valued, so exact ties are rare; near-ties are not, and normalisation
    blows them up.

    Defaults: none to choose. The authors train it with `grpo`, 7 samples per prompt.

    Cost: one reduction over the logits, which the trainer's forward pass has; worked on in chunks.

    Plugs in: replaces the trainer's reward; call it with logits ``(sample, token, V)`` and the
    completion mask, or `of_tokens` with the certainty of each token.

    Our reading: log V is subtracted as in the paper; the authors' code leaves it out, which
    centring makes the same.

    Source: Zhao et al., arXiv 2505.19590.
    """

    def __call__(self, logits: Any, mask: Any) -> Any:
        """Return one reward per sample; no gradient flows through it."""
        return self.of_tokens(_in_chunks(self_certainty, logits), mask)

    def of_tokens(self, certainty: Any, mask: Any) -> Any:
        """Return the rewards of known token certainties ``(sample, token)``."""
        return mean_over_tokens(_detached(certainty), mask)


@remedy("rent", "reward")
@dataclass(kw_only=True, eq=False)
class Rent:
    """Negative entropy as the reward: the policy is rewarded for being sure.

    ``r_i = -mean over tokens of H(p_t)``

    Ties: the reward is real-valued, so exact ties are rare; near-ties are not, and normalisation
    blows them up.

    Defaults: unparsed 7.0, the entropy that the authors' code puts in for a response whose answer
    cannot be parsed (reward -7). They train it with `grpo`, 5 samples per prompt.

    Cost: one reduction over the logits, which the trainer's forward pass has; worked on in chunks.

    Plugs in: replaces the trainer's reward; call it with logits ``(sample, token, V)`` and the
    completion mask, or `of_tokens` with the entropy of each token, which trainers log.

    Source: Prabhudesai et al., arXiv 2505.22660.
    """

    unparsed: float = 7.0

    def __post_init__(self) -> None:
        options.number("unparsed", self.unparsed, 0)

    def __call__(self, logits: Any, mask: Any, parsed: Any = None) -> Any:
        """Return one reward per sample; no gradient flows through it.

        `parsed`, shape ``(sample,)``, says which answers could be parsed.
        """
        return self.of_tokens(_in_chunks(token_entropy, logits), mask, parsed)

    def of_tokens(self, entropy: Any, mask: Any, parsed: Any = None) -> Any:
        """Return the rewards of known token entropies ``(sample, token)``."""
        reward = -mean_over_tokens(_detached(entropy), mask)
        if parsed is None:
            return reward
        xp = array_namespace(reward)
        known = xp.asarray(parsed, dtype=xp.bool, device=device(reward))
        return xp.where(known, reward, xp.full_like(reward, -self.unparsed))


def _in_chunks(measure: Any, logits: Any) -> Any:
    """Apply a per-token measure to a few samples at a time: a softmax is as large as its input."""
    xp, logits = array_namespace(logits), _detached(logits)
    per_sample = max(int(logits.shape[1]) * int(logits.shape[2]), 1)
    step = max(CHUNK // per_sample, 1)
    parts = [
        measure(logits[start : start + step]) for start in range(0, int(logits.shape[0]), step)
    ]
    return xp.concat(parts) if parts else _wide(logits[..., 0])


def _log_total(logits: Any, top: Any) -> Any:
    xp = array_namespace(logits)
    return xp.log(xp.sum(xp.exp(logits - xp.expand_dims(top, axis=-1)), axis=-1))


def _wide(values: Any) -> Any:
    """Return half precision as float32: sums over a vocabulary need it."""
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, "real floating") or xp.finfo(values.dtype).bits < 32:
        return xp.astype(values, xp.float32)
    return values


def _detached(values: Any) -> Any:
    return values.detach() if hasattr(values, "detach") else values

"""Losses of the PPO family: a clipped importance ratio times the advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.losses.aggregate import Aggregation
from buttress.remedies.losses.base import Loss, Tokens, sequence_mean
from buttress.remedies.registry import remedy


@remedy("ppo_clip", "loss")
@dataclass(kw_only=True, eq=False)
class PpoClip(Loss):
    """The clipped surrogate with separate lower and upper bounds, as GRPO uses it.

    ``-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A)``, mean over tokens, then over responses

    `delta`, where given, caps ρ from above before anything else, so that a negative advantage
    cannot make the term unbounded (dual clip).

    Ties: an advantage of 0 gives a term of 0; tied groups still count in the denominator unless
    ``denominator="signal"``.

    Defaults: 0.2 on both sides, the setting of arXiv 2605.21125.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: Schulman et al., arXiv 1707.06347; Shao et al., arXiv 2402.03300.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    delta: float | None = None

    def check(self) -> None:
        options.number("clip_low", self.clip_low, 0)
        options.number("clip_high", self.clip_high, 0)
        if self.delta is not None and not self.delta > 1 + self.clip_high:
            raise UsageError(f"delta must lie above 1 + clip_high; got {self.delta!r}")

    def terms(self, tokens: Tokens) -> Any:
        return self.clipped(tokens.log_ratio.exp(), tokens.advantages)

    def clipped(self, ratio: Any, advantages: Any) -> Any:
        """Return the clipped surrogate, negated."""
        inside = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        if self.delta is not None:
            ratio = ratio.clamp(max=self.delta)
        return -(ratio * advantages).minimum(inside * advantages)


@remedy("dapo", "loss")
@dataclass(kw_only=True, eq=False)
class Dapo(PpoClip):
    """DAPO's loss: clip-higher, and every token of the batch weighs the same.

    ``-min(ρ A, clip(ρ, 1 - 0.2, 1 + 0.28) A)``, sum over tokens / tokens of the batch

    Ties: zero terms, but their tokens sit in the denominator and dilute the step;
    ``denominator="signal"`` leaves them out. The paper itself resamples tied groups away: see
    ``dynamic_sampling``.

    Defaults: 0.2 and 0.28, the paper's.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss; give `total` where micro-batches or ranks split the
    batch.

    Source: Yu et al., arXiv 2503.14476.
    """

    clip_high: float = 0.28
    aggregation: Aggregation = "token_mean"


@remedy("dr_grpo_loss", "loss")
@dataclass(kw_only=True, eq=False)
class DrGrpoLoss(PpoClip):
    """Dr. GRPO's loss: a constant length instead of each response's own, no length bias.

    ``-min(ρ A, clip(ρ) A)``, sum over tokens / (responses · max_length), with ``A = r - mean(r)``

    Ties: zero terms; counted in the denominator unless ``denominator="signal"``.

    Defaults: clip 0.2; `max_length` has none, it is the completion cap of the run.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss (TRL: ``loss_type="dr_grpo"``).

    Source: Liu et al., arXiv 2503.20783.
    """

    advantage = "dr_grpo"
    aggregation: Aggregation = "seq_mean_token_sum_norm"


@remedy("gspo", "loss")
@dataclass(kw_only=True, eq=False)
class Gspo(PpoClip):
    """GSPO: one importance ratio per response, the geometric mean of its tokens'.

    ``s = exp(mean_t log ρ_t)``, then ``-min(s A, clip(s, 1 - clip_low, 1 + clip_high) A)``

    Each token gets the value of s and, as in verl, its own gradient: ``s · exp(log π - sg log π)``.
    So token-level advantages work; for one advantage per response the gradient is the same.

    Ties: zero terms.

    Defaults: 3e-4 and 4e-4, the paper's; they belong to the length-normalised ratio.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: Zheng et al., arXiv 2507.18071.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def terms(self, tokens: Tokens) -> Any:
        log_sequence = sequence_mean(tokens.log_ratio, tokens.mask).detach()
        log_token = log_sequence + tokens.logp - tokens.logp.detach()
        return self.clipped(log_token.exp(), tokens.advantages)


@remedy("dcpo_clip", "loss")
@dataclass(kw_only=True, eq=False)
class DcpoClip(Loss):
    """DCPO's dynamic clip: rare tokens may move further, frequent ones less.

    ``0.5 + 0.5 √max(1 - 4 clip_low / q, 0) <= ρ <= 0.5 + 0.5 √(1 + 4 clip_high / q)`` with
    ``q = π_old(token)``, ρ capped at `cap`; summed over responses of their token means ("OTM")

    The bounds solve ``|(ρ - 1) ρ| q <= clip``.

    Ties: zero terms for an advantage of 0; the paper pairs it with the smooth advantages of
    ``dcpo``, which give tied groups a signal.

    Defaults: 0.16, 0.2 and a cap of 10, the paper's (the released script sets 0.28 for the upper
    one).

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: Yang et al., arXiv 2509.02333.
    """

    advantage = "dcpo"
    aggregation: Aggregation = "seq_sum_token_mean"
    clip_low: float = 0.16
    clip_high: float = 0.2
    cap: float = 10.0

    def check(self) -> None:
        options.number("clip_low", self.clip_low, 0)
        options.number("clip_high", self.clip_high, 0)
        options.number("cap", self.cap, 1)

    def terms(self, tokens: Tokens) -> Any:
        # log-probabilities near minus infinity would divide by zero
        chance = tokens.old_logp.exp().clamp(min=1e-30)
        low = 0.5 + 0.5 * (1 - 4 * self.clip_low / chance).clamp(min=0).sqrt()
        high = 0.5 + 0.5 * (1 + 4 * self.clip_high / chance).sqrt()
        ratio = tokens.log_ratio.exp().clamp(max=self.cap)
        inside = ratio.clamp(max=high.clamp(max=self.cap)).maximum(low)
        return -(ratio * tokens.advantages).minimum(inside * tokens.advantages)

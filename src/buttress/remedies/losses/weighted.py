"""Losses that weigh or bound the ratio in another way than the PPO clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.losses.aggregate import AGGREGATIONS, Aggregation, aggregate
from buttress.remedies.losses.base import Loss, Tokens, at_active
from buttress.remedies.losses.clipped import PpoClip
from buttress.remedies.registry import remedy


@remedy("cispo", "loss")
@dataclass(kw_only=True, eq=False)
class Cispo(Loss):
    """CISPO with an absolute cap on the ratio, TRL's convention.

    ``-sg(min(ρ, cap)) A log π``, sum over tokens / tokens of the batch

    No token loses its gradient; only the weight is bounded. The cap is absolute here: 5.0 means
    ρ <= 5. In verl's convention (`cispo_verl`) a bound of 5.0 means ρ <= 6.

    Ties: zero terms; their tokens count unless ``denominator="signal"``.

    Defaults: cap 5.0, as ScaleRL and TRL's documentation advise.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: MiniMax-M1, arXiv 2506.13585.
    """

    aggregation: Aggregation = "token_mean"
    cap: float = 5.0

    def check(self) -> None:
        options.number("cap", self.cap, 0)

    def terms(self, tokens: Tokens) -> Any:
        weight = tokens.log_ratio.exp().clamp(max=self.cap).detach()
        return -weight * tokens.advantages * tokens.logp


@remedy("cispo_verl", "loss")
@dataclass(kw_only=True, eq=False)
class CispoVerl(Loss):
    """CISPO with bounds relative to 1, verl's convention.

    ``-sg(clip(ρ, 1 - clip_low, 1 + clip_high)) A log π``, sum over tokens / tokens of the batch

    Ties: zero terms; their tokens count unless ``denominator="signal"``.

    Defaults: 1.0 and 5.0, i.e. ρ in [0, 6], the setting of arXiv 2602.06717.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: MiniMax-M1, arXiv 2506.13585; bounds as in verl 0.9.1.
    """

    aggregation: Aggregation = "token_mean"
    clip_low: float = 1.0
    clip_high: float = 5.0

    def check(self) -> None:
        options.number("clip_low", self.clip_low, 0)
        options.number("clip_high", self.clip_high, 0)

    def terms(self, tokens: Tokens) -> Any:
        ratio = tokens.log_ratio.exp()
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high).detach()
        return -weight * tokens.advantages * tokens.logp


@remedy("sapo", "loss")
@dataclass(kw_only=True, eq=False)
class Sapo(Loss):
    """SAPO: a sigmoid gate instead of a hard clip.

    ``-(4 / t) σ(t (ρ - 1)) A`` with t = `temperature_pos` where A > 0, else `temperature_neg`

    At ρ = 1 the gradient is that of ρ A; far from 1 it fades smoothly.

    Ties: zero terms.

    Defaults: 1.0 and 1.05, the paper's.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss.

    Source: Gao et al., arXiv 2511.20347.
    """

    temperature_pos: float = 1.0
    temperature_neg: float = 1.05

    def check(self) -> None:
        for name in ("temperature_pos", "temperature_neg"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0; got {getattr(self, name)!r}")

    def terms(self, tokens: Tokens) -> Any:
        advantages = tokens.advantages
        positive = advantages.new_full((), self.temperature_pos)
        temperature = positive.where(advantages > 0, advantages.new_full((), self.temperature_neg))
        gate = (temperature * (tokens.log_ratio.exp() - 1)).sigmoid()
        return -4 / temperature * gate * advantages


@remedy("mcpo_hinge_kl", "loss")
@dataclass(kw_only=True, eq=False)
class McpoHingeKl(PpoClip):
    """MCPO's loss: clip-higher, and a hinge that keeps mastered prompts where they are.

    DAPO's clip, plus on mastered prompts `weight` · mean over their responses of the token mean
    of φ(d): ``φ = 0 if |d| <= δ, k3(d) - k3(δ) if d > δ, k3(d) - k3(-δ) if d < -δ`` with
    ``d = log π - log π_old`` and ``k3(d) = e^d - d - 1``

    The hinge has an aggregation of its own, over the mastered responses alone. Where micro-batches
    or ranks split a batch, give `mastered_total`, the mastered responses of the whole (tokens, for
    ``token_mean``): the parts then add up to the hinge of the whole. A mean over each part would
    count a mastered response the more, the fewer of them share its part.

    The reference is the policy of the last step, not the initial one; on the first on-policy pass
    d = 0 and the hinge is silent.

    Ties: all-correct groups, which have no advantage, get the hinge; all-wrong ones nothing.

    Defaults: δ 0.01, weight 1, clip 0.2 / 0.28, hinge_aggregation "seq_mean_token_mean": the
    paper's.

    Cost: none beyond the forward pass.

    Plugs in: replaces the trainer's loss; needs `mastered` (True where the whole group is
    correct). Pairs with the weights of ``mcpo``.

    Source: arXiv 2604.16972 (read in transcription).
    """

    advantage = "mcpo"
    clip_high: float = 0.28
    delta_kl: float = 0.01
    weight: float = 1.0
    hinge_aggregation: Aggregation = "seq_mean_token_mean"

    def check(self) -> None:
        super().check()
        options.number("delta_kl", self.delta_kl, 0)
        options.number("weight", self.weight, 0)
        options.choice("hinge_aggregation", self.hinge_aggregation, AGGREGATIONS)

    def __call__(
        self,
        logp: Any,
        old_logp: Any,
        advantages: Any,
        mask: Any,
        *,
        mastered: Any = None,
        mastered_total: Any = None,
        **more: Any,
    ) -> Any:
        """Return the loss as a scalar tensor; parameters as of every loss, and `mastered_total`."""
        loss = super().__call__(logp, old_logp, advantages, mask, mastered=mastered, **more)
        if mastered is None or old_logp is None:
            return loss
        apart = at_active(logp, mask) - at_active(old_logp, mask)
        held = aggregate(
            self.hinge(apart) * mastered.to(apart.dtype).unsqueeze(-1),
            mask,
            self.hinge_aggregation,
            keep=mastered,
            total=mastered_total,
            max_length=self.max_length,
        )
        return loss + self.weight * held

    def hinge(self, apart: Any) -> Any:
        """Return φ per token; 0 inside ``[-delta_kl, delta_kl]`` and continuous at its ends."""
        inner = apart.clamp(-self.delta_kl, self.delta_kl)
        return _k3(apart) - _k3(inner)


def _k3(apart: Any) -> Any:
    return apart.expm1() - apart

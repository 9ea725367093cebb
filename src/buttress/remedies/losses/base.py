"""The base of every policy loss: log-probabilities and advantages in, a scalar to minimise out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from buttress.errors import UsageError
from buttress.remedies import options
from buttress.remedies.losses.aggregate import AGGREGATIONS, Aggregation, aggregate

Denominator = Literal["all", "signal"]


@dataclass(frozen=True, eq=False)
class Tokens:
    """What a loss sees; all of shape ``(response, token)`` unless they say otherwise.

    Attributes
    ----------
    logp, old_logp
        Log-probabilities of the sampled tokens under the policy and under the one that sampled.
    advantages
        ``(response, 1)`` or ``(response, token)``.
    mask
        1 on the tokens that count.
    ref_logp
        Log-probabilities under the reference policy, where a KL term wants them.
    mastered
        ``(response,)``, True where every rollout of the prompt was correct (MCPO).
    """

    logp: Any
    old_logp: Any
    advantages: Any
    mask: Any
    ref_logp: Any = None
    mastered: Any = None

    @property
    def log_ratio(self) -> Any:
        """``log(pi_theta / pi_old)`` per token."""
        return self.logp - self.old_logp


@dataclass(kw_only=True, eq=False)
class Loss:
    """Base class; a subclass is a dataclass whose fields are its options and writes `terms`.

    Attributes
    ----------
    aggregation
        A name from `aggregate`.
    denominator
        ``all`` counts every response, as the trainers do; ``signal`` leaves tied groups out, so
        that a collapsed batch does not shrink the step of the live groups.
    beta
        Weight of the k3 estimate of KL(policy || reference), added per token; 0 for none.
    max_length
        The completion cap, for the aggregation of Dr. GRPO.
    """

    advantage: ClassVar[str] = "grpo"  # the estimator that its paper pairs it with

    aggregation: Aggregation = "seq_mean_token_mean"
    denominator: Denominator = "all"
    beta: float = 0.0
    max_length: int | None = None

    def __post_init__(self) -> None:
        options.choice("aggregation", self.aggregation, AGGREGATIONS)
        options.choice("denominator", self.denominator, ("all", "signal"))
        options.number("beta", self.beta, 0)
        self.check()

    def check(self) -> None:
        """Raise `UsageError` where an option has a bad value."""

    def terms(self, tokens: Tokens) -> Any:
        """Return the loss of each token, shape ``(response, token)``."""
        raise NotImplementedError

    def __call__(
        self,
        logp: Any,
        old_logp: Any,
        advantages: Any,
        mask: Any,
        *,
        ref_logp: Any = None,
        signal: Any = None,
        mastered: Any = None,
        total: Any = None,
    ) -> Any:
        """Return the loss as a scalar tensor.

        Parameters
        ----------
        logp, old_logp, mask, ref_logp, mastered
            As in `Tokens`; ``old_logp=None`` means on-policy.
        advantages
            ``(response,)`` or ``(response, token)``; no gradient flows into them.
        signal
            ``(response,)``, True where the group is not tied; needed for ``denominator="signal"``.
        total
            The denominator over the whole batch, see `aggregate`.
        """
        if self.beta and ref_logp is None:
            raise UsageError(f"beta={self.beta} needs ref_logp, the reference policy")
        # padding may hold anything; zeroed here, it cannot spoil a gradient either
        logp, old_logp, ref_logp = (at_active(one, mask) for one in (logp, old_logp, ref_logp))
        old_logp = logp.detach() if old_logp is None else old_logp
        advantages = advantages.detach()
        advantages = advantages.unsqueeze(-1) if advantages.ndim == 1 else advantages
        terms = self.terms(Tokens(logp, old_logp, advantages, mask, ref_logp, mastered))
        if self.beta:
            terms = terms + self.beta * k3(logp, ref_logp)
        keep = None
        if self.denominator == "signal":
            if signal is None and total is None:
                raise UsageError("denominator='signal' needs signal= (or total=)")
            keep = signal
        terms = terms.expand_as(logp)
        return aggregate(
            terms, mask, self.aggregation, keep=keep, total=total, max_length=self.max_length
        )


def k3(logp: Any, ref_logp: Any) -> Any:
    """Return the k3 estimate of KL(policy || reference) per token, never negative.

    ``exp(d) - d - 1`` with ``d = ref_logp - logp``; its expectation over the policy's samples is
    the KL divergence.

    Source: J. Schulman, "Approximating KL divergence" (2020); arXiv 2402.03300, equation 4.
    """
    apart = ref_logp - logp
    return apart.exp() - apart - 1


def at_active(values: Any, mask: Any) -> Any:
    """Return values with 0 where no token counts, whatever stood there; None stays None."""
    return None if values is None else values.where(mask > 0, values.new_zeros(()))


def sequence_mean(values: Any, mask: Any) -> Any:
    """Return the mean over each response's active tokens, shape ``(response, 1)``."""
    mask = mask.to(values.dtype)
    total = values.where(mask > 0, values.new_zeros(())).sum(-1, keepdim=True)
    return total / mask.sum(-1, keepdim=True).clamp(min=1.0)

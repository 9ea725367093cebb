"""From a loss per token to one number: every rule that trainers use, by name."""

from __future__ import annotations

from typing import Any, Literal, get_args

from buttress.errors import UsageError

Aggregation = Literal[
    "token_mean",
    "seq_mean_token_mean",
    "seq_mean_token_sum",
    "seq_mean_token_sum_norm",
    "seq_sum_token_mean",
]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)


def aggregate(
    terms: Any,
    mask: Any,
    how: Aggregation,
    *,
    keep: Any = None,
    total: float | Any | None = None,
    max_length: int | None = None,
) -> Any:
    """Reduce per-token losses to a scalar.

    ======================== =============================================== ==================
    name                     value                                           used by
    ======================== =============================================== ==================
    token_mean               sum over tokens / tokens                        DAPO, BNPO, CISPO
    seq_mean_token_mean      mean over responses of their token mean         GRPO, GSPO, SAPO
    seq_mean_token_sum       mean over responses of their token sum          verl
    seq_mean_token_sum_norm  sum over tokens / (responses · max_length)      Dr. GRPO
    seq_sum_token_mean       sum over responses of their token mean          DCPO ("OTM")
    ======================== =============================================== ==================

    Parameters
    ----------
    terms, mask
        Shape ``(response, token)``; ``mask`` is 1 on the tokens that count.
    keep
        Shape ``(response,)``, True where the response's group carries a signal. When given, only
        those responses count in the denominator, so that tied groups do not dilute the loss. The
        numerator is not touched: what a tied group adds by KL or entropy stays.
    total
        The denominator over the whole batch (tokens or responses, by the rule) where these are
        one micro-batch or one rank of it; `keep` is then not looked at.
    max_length
        The completion cap, for ``seq_mean_token_sum_norm``.

    Returns
    -------
    scalar tensor
        0 where nothing counts. Responses without a single active token count as responses.

    Source: aggregation rules of TRL 1.16 (``loss_type``) and verl 0.9.1 (``loss_agg_mode``);
    ``seq_sum_token_mean`` from arXiv 2509.02333.
    """
    mask = mask.to(terms.dtype)
    # a masked token may hold anything, even a NaN: it must not reach the sum
    terms = terms.where(mask > 0, terms.new_zeros(()))
    counted = mask if keep is None else mask * keep.to(mask.dtype).unsqueeze(-1)
    if how == "token_mean":
        return terms.sum() / _at_least_one(counted.sum() if total is None else total)
    per_response = terms.sum(-1)
    responses = (terms.new_tensor(float(len(terms))) if keep is None else keep.sum()).to(terms)
    responses = _at_least_one(responses if total is None else total)
    if how == "seq_mean_token_sum":
        return per_response.sum() / responses
    if how == "seq_mean_token_sum_norm":
        if max_length is None:
            raise UsageError("seq_mean_token_sum_norm needs max_length, the completion cap")
        return per_response.sum() / (responses * max_length)
    means = per_response / mask.sum(-1).clamp(min=1.0)
    if how == "seq_sum_token_mean":
        return means.sum()
    if how == "seq_mean_token_mean":
        return means.sum() / responses
    raise UsageError.unknown("aggregation", how, AGGREGATIONS)


def _at_least_one(count: Any) -> Any:
    return count.clamp(min=1.0) if hasattr(count, "clamp") else max(count, 1.0)

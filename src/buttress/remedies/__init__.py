"""What can be done? Estimators, token credit, internal rewards, losses and sampling."""

# each of these enters its remedies into the catalogue
from buttress.remedies import (  # noqa: F401
    asymmetric,
    avspo,
    baselines,
    batch_norm,
    dcpo,
    entropy,
    filters,
    focal,
    gdpo,
    group_norm,
    internal,
    losses,
    pools,
    posterior,
    prompt_weights,
    sampling,
    spo,
    token_credit,
)
from buttress.remedies.batch import Batch
from buttress.remedies.estimator import Estimator
from buttress.remedies.registry import Remedy, create, estimator, page, remedies, remedy
from buttress.remedies.rows import advantages
from buttress.remedies.token_credit import TokenColumns

__all__ = [
    "Batch",
    "Estimator",
    "Remedy",
    "TokenColumns",
    "advantages",
    "create",
    "estimator",
    "page",
    "remedies",
    "remedy",
]

"""What can be done? Estimators, token credit, internal rewards, losses and sampling."""

from buttress.remedies import avspo, group_norm  # noqa: F401  (they enter the catalogue)
from buttress.remedies.batch import Batch
from buttress.remedies.estimator import Estimator
from buttress.remedies.registry import Remedy, create, estimator, page, remedies, remedy
from buttress.remedies.rows import advantages

__all__ = [
    "Batch",
    "Estimator",
    "Remedy",
    "advantages",
    "create",
    "estimator",
    "page",
    "remedies",
    "remedy",
]

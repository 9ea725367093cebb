"""Policy losses on torch tensors. Importing this costs no torch: only tensor methods are used."""

from buttress.remedies.losses.aggregate import AGGREGATIONS, aggregate
from buttress.remedies.losses.base import Loss, Tokens, k3
from buttress.remedies.losses.clipped import Dapo, DcpoClip, DrGrpoLoss, Gspo, PpoClip
from buttress.remedies.losses.weighted import Cispo, CispoVerl, McpoHingeKl, Sapo

__all__ = [
    "AGGREGATIONS",
    "Cispo",
    "CispoVerl",
    "Dapo",
    "DcpoClip",
    "DrGrpoLoss",
    "Gspo",
    "Loss",
    "McpoHingeKl",
    "PpoClip",
    "Sapo",
    "Tokens",
    "aggregate",
    "k3",
]

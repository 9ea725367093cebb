"""buttress: is a group-relative RL run learning from what it samples, and if not, why?

The names below are the public face; everything is imported on first use, so that
``import buttress`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Groups": "buttress.groups",
    "Monitor": "buttress.hooks",
    "Policy": "buttress.hooks",
    "Problem": "buttress.groups",
    "Run": "buttress.groups",
    "Tolerance": "buttress.groups",
    "advantages": "buttress.remedies",
    "collapse_rate": "buttress.measures",
    "composition": "buttress.measures",
    "diagnose": "buttress.report",
    "estimator": "buttress.remedies",
    "read": "buttress.logs",
}

__all__ = [
    "Groups",
    "Monitor",
    "Policy",
    "Problem",
    "Run",
    "Tolerance",
    "__version__",
    "advantages",
    "collapse_rate",
    "composition",
    "diagnose",
    "estimator",
    "read",
]

if TYPE_CHECKING:
    from buttress.groups import Groups, Problem, Run, Tolerance
    from buttress.hooks import Monitor, Policy
    from buttress.logs import read
    from buttress.measures import collapse_rate, composition
    from buttress.remedies import advantages, estimator
    from buttress.report import diagnose


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'buttress' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

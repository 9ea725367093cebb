"""Helpers that several test files share."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def require(module: str) -> Any:
    """Import an optional module, or skip; BUTTRESS_REQUIRE_ALL=1 turns the skip into a failure."""
    if os.environ.get("BUTTRESS_REQUIRE_ALL") == "1":
        return importlib.import_module(module)
    return pytest.importorskip(module)

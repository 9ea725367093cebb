"""Reward functions that recipes name as ``recipes/rewards.py:function``."""

from collections.abc import Sequence
from typing import Any


def overlong(
    completion_ids: Sequence[Sequence[int]], longest: int, soft: int, **_: Any
) -> list[float]:
    """DAPO's soft overlong penalty, arXiv 2503.14476.

    0 up to ``longest - soft`` tokens, then falling linearly to -1 at `longest`, -1 beyond.
    """
    return [max(-1.0, min(0.0, (longest - soft - len(ids)) / soft)) for ids in completion_ids]

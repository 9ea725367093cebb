"""How many threads a model is worth on a CPU."""

from __future__ import annotations

import os
from typing import Any

SMALL = 5_000_000  # parameters; below, threads wait for each other longer than they compute


def take_one_if_small(model: Any) -> str | None:
    """Let torch compute a small model on the CPU with one thread, and say so.

    Leaves everything as it is where ``OMP_NUM_THREADS`` or ``MKL_NUM_THREADS`` is set. A decoder of
    0.2 million parameters was 3 to 35 times slower with two threads than with one.
    """
    import torch

    if {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ) or torch.get_num_threads() == 1:
        return None
    weights = list(model.parameters())
    if any(w.device.type != "cpu" for w in weights) or sum(w.numel() for w in weights) >= SMALL:
        return None
    torch.set_num_threads(1)
    return "a small model on the CPU: one thread, which is faster (OMP_NUM_THREADS sets another)"

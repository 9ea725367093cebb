"""What the ranks of a distributed run tell each other, through torch if it runs at all."""

from __future__ import annotations

import sys
from typing import Any

from buttress.hooks.monitor import Monitor


def everyone(mine: Any) -> list[Any]:
    """Return what every rank gives, in the order of the ranks; all of them must call.

    Without a process group it is a list of one.
    """
    distributed = _distributed()
    if distributed is None:
        return [mine]
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, mine)
    return gathered


def rank() -> int:
    """Return the number of this process, 0 without a process group."""
    distributed = _distributed()
    return 0 if distributed is None else distributed.get_rank()


def over_ranks(monitor: Monitor) -> Monitor:
    """Return one monitor of what all ranks counted, the same on each; all of them must call.

    For a loop in which every rank updates a monitor with groups of its own. The result has no
    policies and no sinks; the monitors of the ranks stay as they are.

    Examples
    --------
    >>> from buttress.groups import Groups
    >>> monitor = Monitor()
    >>> monitor.update(Groups.from_nested([[1, 1]]), step=1)
    >>> over_ranks(monitor).metrics()["buttress/acr"]
    1.0
    """
    total = monitor.like()
    for state in everyone(monitor.state_dict()):
        part = monitor.like()
        part.load_state_dict(state)
        total.merge(part)
    return total


def _distributed() -> Any:
    """Return torch.distributed where it is at work; torch is not imported for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    return torch.distributed if torch.distributed.is_initialized() else None

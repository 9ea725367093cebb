"""What the processes of one training tell each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from buttress.errors import ButtressError

T = TypeVar("T")


class RankError(ButtressError):
    """What happened on one rank while it trained; the others may know nothing of it."""


def is_main() -> bool:
    """Return whether this is the process that writes and speaks."""
    from accelerate import PartialState

    return PartialState().is_main_process


def shared(make: Callable[[], T]) -> T:
    """Return what `make` gives on the main process, on every rank; its fault is raised on all."""
    from accelerate.utils import broadcast_object_list

    found: list[Any] = [None, None]
    if is_main():
        try:
            found[0] = make()
        except ButtressError as fault:
            found[1] = fault
    broadcast_object_list(found)
    if found[1] is not None:
        raise found[1]
    return found[0]

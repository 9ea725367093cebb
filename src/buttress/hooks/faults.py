"""A fault of ours must never end a training run: it becomes one warning, and training goes on."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

logger = logging.getLogger("buttress.hooks")


class Faults:
    """Turns exceptions into warnings: each kind is said once, with its traceback at debug level.

    Parameters
    ----------
    speaks
        Whether this process warns; the other ranks stay silent about what all of them share.
    """

    def __init__(self, *, speaks: bool = True) -> None:
        self._speaks = speaks
        self._told: set[tuple[str, ...]] = set()

    def warn(self, message: str) -> None:
        """Say a message once."""
        if self._is_news(message) and self._speaks:
            logger.warning(message)

    @contextmanager
    def shield(self, doing: str, instead: str, *, own: bool = False) -> Generator[None]:
        """Run a block; if it raises, warn that `doing` failed and what happens `instead`.

        `own` marks a fault that may hit one rank alone: that rank speaks, whichever it is.
        """
        try:
            yield
        except Exception as fault:
            kind = type(fault).__name__
            if self._is_news(doing, kind) and (self._speaks or own):
                said = "buttress could not %s (%s: %s); %s. Said once; traceback at debug level."
                logger.warning(said, doing, kind, fault, instead)
                logger.debug("buttress could not %s", doing, exc_info=fault)

    def _is_news(self, *kind: str) -> bool:
        news = kind not in self._told
        self._told.add(kind)
        return news

"""Imported by verl through the entry point ``verl.plugins``, in the driver and in every worker."""

from __future__ import annotations

from buttress.hooks.verl import logger, register

try:
    register()
except Exception as fault:
    # verl reports a failed plugin at debug level only, and later calls our names unknown
    logger.warning(
        "buttress could not register with verl (%s: %s); its names will be unknown there",
        type(fault).__name__,
        fault,
    )

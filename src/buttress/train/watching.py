"""The monitor of a training: it counts and judges every generation, and the log hears of it too."""

from __future__ import annotations

from typing import Any

from buttress.errors import UsageError
from buttress.groups import Groups
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.policies import Policy
from buttress.train.config import Training
from buttress.train.rollout_log import RolloutLog
from buttress.train.source import Source


class LoggedMonitor(Monitor):
    """A monitor that writes the rollouts before it counts them."""

    def __init__(self, *, log: RolloutLog | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._log = log

    def update(self, groups: Groups, step: int | None = None, *, reading: Any = None) -> None:
        if self._log is not None and step is not None:
            self._log.update(groups, step=step)
        super().update(groups, step, reading=reading)


def monitor_of(config: Training, source: Source, log: RolloutLog) -> Monitor | RolloutLog:
    """Return what hears of every generation: the log, and a monitor unless there is to be none.

    Raises `UsageError` for an option that the monitor does not take.
    """
    if config.monitor is False:
        return log
    options = {} if config.monitor is True else dict(config.monitor)
    try:
        if "policies" in options:
            options["policies"] = [Policy(**one) for one in options["policies"]]
        return LoggedMonitor(log=log, **({"total_steps": config.steps} | options))
    except (TypeError, UsageError) as fault:
        raise source.fault(("monitor",), f"monitor: {fault}") from None

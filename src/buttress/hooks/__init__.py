"""And live? Remedies and monitors inside a running trainer; never an error in a step."""

from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.actions import Event, Sampling, Switch
from buttress.hooks.monitor.policies import Policy

__all__ = ["Event", "Monitor", "Policy", "Sampling", "Switch"]

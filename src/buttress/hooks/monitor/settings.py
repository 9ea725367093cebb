"""A monitor from plain settings, for trainers that are configured by text (verl, ms-swift).

::

    {"window": 100, "jsonl": "run/buttress.jsonl",
     "policies": [{"when": "acr_window > 0.6", "for_steps": 20, "then": ["warn", "stop"]},
                  {"when": "all-wrong-collapse", "then": {"switch": "avspo"}}]}
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from buttress.errors import UsageError
from buttress.hooks import sinks
from buttress.hooks.monitor import Monitor
from buttress.hooks.monitor.actions import Sampling, Switch
from buttress.hooks.monitor.policies import Policy

COUNTING = ("window", "warmup", "max_prompts", "total_steps")
SINKS = {
    "jsonl": sinks.JsonLines,
    "tensorboard": sinks.TensorBoard,
    "prometheus": lambda port: sinks.Prometheus(port=port),
    "prometheus_file": lambda path: sinks.Prometheus(textfile=path),
}
_POLICY = tuple(name for name in inspect.signature(Policy).parameters)


def monitor_from(settings: Any) -> Monitor:
    """Return the monitor that plain settings describe, or raise `UsageError`.

    Parameters
    ----------
    settings
        True for a monitor as it comes; else a mapping with the settings of `Monitor` (``window``,
        ``warmup``, ``max_prompts``, ``total_steps``), ``policies`` (a list of the fields of
        `Policy`; ``then`` may be ``{"switch": NAME, "options": {...}}`` or ``{"temperature": T,
        "top_p": P}``) and sinks: ``jsonl`` (path), ``tensorboard`` (folder), ``prometheus``
        (port), ``prometheus_file`` (path).

    Examples
    --------
    >>> monitor_from({"policies": [{"when": "acr > 0.5", "then": "stop"}]}).policies[0].then
    'stop'
    """
    if settings is True:
        settings = {}
    if not isinstance(settings, Mapping):
        raise UsageError(f"monitor must be true or a mapping of settings; got {settings!r}")
    for name in settings:
        if name not in (*COUNTING, "policies", *SINKS):
            raise UsageError.unknown(
                "setting of the monitor", name, (*COUNTING, "policies", *SINKS)
            )
    policies = settings.get("policies")
    if policies is not None:
        if not isinstance(policies, Sequence) or isinstance(policies, str):
            raise UsageError(f"policies must be a list of mappings; got {policies!r}")
        policies = [_policy(one) for one in policies]
    counting = {name: settings[name] for name in COUNTING if name in settings}
    given = [SINKS[name](settings[name]) for name in SINKS if name in settings]
    return Monitor(policies=policies, sinks=given, **counting)


def _policy(settings: Any) -> Policy:
    if not isinstance(settings, Mapping) or "when" not in settings:
        raise UsageError(f"a policy is a mapping with at least 'when'; got {settings!r}")
    for name in settings:
        if name not in _POLICY:
            raise UsageError.unknown("setting of a policy", name, _POLICY)
    then = settings.get("then", "warn")
    many = isinstance(then, Sequence) and not isinstance(then, str)
    actions = tuple(_action(one) for one in then) if many else _action(then)
    named: dict[str, Any] = {**settings, "then": actions}
    return Policy(**named)


def _action(then: Any) -> Any:
    if not isinstance(then, Mapping):
        return then
    rest = dict(then)
    if "switch" in rest:
        action = Switch(rest.pop("switch"), dict(rest.pop("options", {})))
    else:
        action = Sampling(rest.pop("temperature", None), rest.pop("top_p", None))
    if rest:
        raise UsageError.unknown(
            "setting of an action", next(iter(rest)), ("switch", "options", "temperature", "top_p")
        )
    return action

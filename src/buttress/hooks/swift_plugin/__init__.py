"""Remedies inside ms-swift 4.6: its GRPOTrainer of the Hugging Face backend.

ms-swift has no registry of advantage estimators; it imports a file at the start::

    BUTTRESS_REMEDY=avspo BUTTRESS_OPTIONS='{"threshold": 0.3}' \\
    swift rlhf --rlhf_type grpo --external_plugins "$(python -m buttress.hooks.swift_plugin)" ...

``BUTTRESS_REMEDY`` is a name in ``buttress remedies`` (default avspo), ``BUTTRESS_OPTIONS`` a JSON
object with its options. In training the remedy's advantages take the place of ms-swift's own; in
evaluation, and after a fault of the remedy (one warning), ms-swift's stay. Its logs and trackers
get ``buttress/acr``, ``buttress/all_wrong``, ``buttress/all_correct``, ``buttress/acr_after``,
``buttress/fallback`` and what the remedy says of itself. The remedy's state is saved and resumed
with the checkpoints (``checkpoint-N/buttress_state.json``).

``BUTTRESS_MONITOR`` adds a `Monitor`: ``true``, or a JSON object as `monitor_from` reads it::

    BUTTRESS_MONITOR='{"policies": [{"when": "acr_window > 0.8", "then": ["warn", "stop"]}]}'

Its numbers stand beside those of the remedy, and its state is saved with it.

The Megatron backend computes its advantages elsewhere and is not touched. ms-swift puts the folder
of a plugin file in front of the import path, which is why that file has a folder of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from buttress.errors import UsageError
from buttress.hooks.monitor.live import LiveEstimator
from buttress.hooks.swift_plugin.attachment import SwiftAttachment

PLUGIN = Path(__file__).with_name("buttress_for_swift.py")


def choice(environment: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the remedy and the options that the environment names, or raise `UsageError`.

    Examples
    --------
    >>> choice({"BUTTRESS_REMEDY": "posterior", "BUTTRESS_OPTIONS": '{"clip": 2}'})
    ('posterior', {'clip': 2})
    """
    remedy = environment.get("BUTTRESS_REMEDY") or "avspo"
    options = _json(environment, "BUTTRESS_OPTIONS", "{}")
    if not isinstance(options, dict):
        raise UsageError(
            f'BUTTRESS_OPTIONS must be an object such as {{"eps": 1e-6}}; got {json.dumps(options)}'
        )
    LiveEstimator(remedy, options)
    return remedy, options


def watching(environment: Mapping[str, str]) -> Any:
    """Return the settings of the monitor that the environment asks for, None for no monitor.

    Examples
    --------
    >>> watching({"BUTTRESS_MONITOR": "true"}), watching({})
    (True, None)
    """
    settings = _json(environment, "BUTTRESS_MONITOR", "null")
    return None if settings is False else settings


def _json(environment: Mapping[str, str], name: str, default: str) -> Any:
    text = environment.get(name) or default
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{name} is no JSON ({fault}): {text}") from None


def install() -> None:
    """Give ms-swift's GRPOTrainer the remedy of the environment; safe to repeat."""
    from swift.rlhf_trainers.grpo_trainer import GRPOTrainer

    remedy, options = choice(os.environ)
    monitor = watching(os.environ)
    if getattr(GRPOTrainer, "has_buttress", False):
        return
    GRPOTrainer.has_buttress = True

    def attach(trainer: Any, _: None, *args: Any, **kwargs: Any) -> None:
        trainer.buttress = SwiftAttachment(trainer, remedy, options, monitor)

    def replace(trainer: Any, theirs: Any, samples: Any, matrix: Any, *rest: Any) -> Any:
        return trainer.buttress.replace(trainer, samples, matrix, theirs)

    def save(trainer: Any, result: Any, model: Any, trial: Any, *args: Any, **kwargs: Any) -> Any:
        trainer.buttress.save(trainer, trial)
        return result

    def load(trainer: Any, _: None, checkpoint: str | None) -> None:
        trainer.buttress.load(trainer, checkpoint)

    _follow(GRPOTrainer, "__init__", attach)
    _follow(GRPOTrainer, "_compute_advantages", replace)
    _follow(GRPOTrainer, "_save_checkpoint", save)
    _follow(GRPOTrainer, "_load_optimizer_and_scheduler", load)


def _follow(kind: type, name: str, then: Callable[..., Any]) -> None:
    """Let ``then(self, result, *args, **kwargs)`` follow a method, and return in its stead."""
    plain = getattr(kind, name)

    @wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return then(self, plain(self, *args, **kwargs), *args, **kwargs)

    setattr(kind, name, method)

"""What may change between the parts of one run, and what makes it another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Where a run is written and how often: they may differ between the parts of one run.
FREE = ("out",)
FREE_TRAINER = (
    *("save_steps", "save_strategy", "save_total_limit", "logging_dir", "report_to", "run_name"),
    *("disable_tqdm", "push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo"),
    *("trackio_space_id", "project", "dataloader_num_workers", "log_level", "save_safetensors"),
)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what differs between two records in what decides a run, one line each.

    >>> differences({"seed": 1, "out": "a"}, {"seed": 2, "out": "b"})
    ['seed: 1 then, 2 now']
    """
    then, now = _flat(old), _flat(new)
    return [
        f"{name}: {_shown(then.get(name))} then, {_shown(now.get(name))} now"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name) and not _is_free(name)
    ]


def _shown(value: Any) -> str:
    return "unset" if value is None else repr(value)


def _is_free(name: str) -> bool:
    return name in FREE or name.removeprefix("trainer.") in FREE_TRAINER


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return found

"""Why did a completion end? Servers say it in a word; the table says whether it was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Columns that hold the word, most telling first.
COLUMNS = ("finish_reason", "stop_reason")
NAME = "finish_reason"  # stands for `truncated` among a plan's columns until `truncated_by` ran
# What OpenAI, vLLM, SGLang, TGI, Anthropic and inspect_ai call the length cap.
CAPPED = {"length", "max_tokens", "max_length", "max_new_tokens", "model_length"}
_UNKNOWN = {"", "none", "null", "nan", "unknown"}


def reason_column(row: Mapping[str, Any]) -> str | None:
    """Return the column that says in words why completions ended, None without one.

    >>> reason_column({"reward": 1, "stop_reason": "length"})
    'stop_reason'
    """
    return next((one for one in COLUMNS if isinstance(row.get(one), str)), None)


def truncated(reason: Any) -> bool | None:
    """Return whether a reason names the length cap; None where it is not known.

    >>> truncated("length"), truncated("stop"), truncated(None)
    (True, False, None)
    """
    if not isinstance(reason, str):
        return None
    word = reason.rpartition(".")[2].strip().lower()  # an enum prints as FinishReason.LENGTH
    return None if word in _UNKNOWN else word in CAPPED


def truncated_by(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with `truncated` in place of the reasons."""
    rest = {name: column for name, column in columns.items() if name != NAME}
    return rest | {"truncated": [truncated(reason) for reason in columns[NAME]]}

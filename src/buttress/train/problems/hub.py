"""The Hugging Face hub: can it be reached, and what to do where it cannot."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from buttress.errors import InputError

PATIENCE = 5.0  # seconds
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_SAID = 160


@cache
def reachable() -> bool:
    """Return whether the hub answers; without this look its clients retry for half a minute.

    A proxy is trusted to know the way. ``HF_HUB_OFFLINE=1`` means no.
    """
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if any(os.environ.get(name) for name in _PROXIES):
        return True
    address = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), PATIENCE):
            return True
    except OSError:
        return False


def online() -> bool:
    """Return whether the hub answers; where it does not, its clients are told before they load."""
    if not reachable() and "huggingface_hub" not in sys.modules:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return reachable()


def model_missing(name: str, reason: object) -> InputError:
    """Return the error for a model that is neither here nor on the hub."""
    folder = f"models/{Path(name).name}"
    return InputError(
        f"cannot load the model {name}: {_why(reason)}. On a machine with a network run "
        f"`hf download {name} --local-dir {folder}`, copy the folder to this machine and name it "
        f"instead: --model {folder} (or copy the hub's cache, ~/.cache/huggingface, as a whole)"
    )


def data_missing(name: str, reason: object) -> InputError:
    """Return the error for a data set that is neither here nor on the hub."""
    folder = f"data/{Path(name).name}"
    return InputError(
        f"cannot load the data set {name}: {_why(reason)}. On a machine with a network run "
        f"`hf download {name} --repo-type dataset --local-dir {folder}`, copy the folder to this "
        f"machine and name it, or one file in it: --data {folder} (a benchmark: --at {folder})"
    )


def _why(reason: object) -> str:
    """Return the first line of a reason; without a network, that there is none."""
    if not reachable():
        return "there is no such folder, the hub's cache lacks it, and the hub cannot be reached"
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return lines[0][:_SAID].rstrip(" .")

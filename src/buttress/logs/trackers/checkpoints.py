"""Files of a saved model or checkpoint that stand in a run's directory: no rollouts, no metrics."""

from __future__ import annotations

import re
from pathlib import Path

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_config.json")
_CHECKPOINT = re.compile(r"checkpoint-\d+|global_step_?\d+|epoch_\d+")
_FILES = re.compile(
    r".*\.(safetensors|bin|pth|gguf|model|txt|jinja|md)|(optimizer|scheduler|scaler|rng_state.*)\.pt"
    r"|.*\.safetensors\.index\.json|(tokenizer|config|vocab|generation_config|special_tokens_map"
    r"|added_tokens|tokenizer_config|preprocessor_config|chat_template|adapter_config"
    r"|buttress_state)\.json|zero_to_fp32\.py|latest"
)


def of_checkpoint(path: Path) -> bool:
    """Return whether a file belongs to saved weights; ``trainer_state.json`` is worth reading."""
    if not _FILES.fullmatch(path.name):
        return False
    folder = path.parent
    if any(_CHECKPOINT.fullmatch(one.name) for one in (folder, folder.parent)):
        return True
    return any(next(folder.glob(pattern), None) is not None for pattern in _WEIGHTS)

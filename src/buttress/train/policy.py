"""The model of a training: where TRL loads it itself, and where it gets it loaded."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from buttress.errors import InputError, UsageError
from buttress.train.config import Training
from buttress.train.generation.models import load_model, load_tokenizer, locate
from buttress.train.problems import hub
from buttress.train.source import Source


def tokenizer(config: Training, args: Any) -> Any:
    """Return the model's tokenizer; a model that cannot be had is found out here, early."""
    return load_tokenizer(config.model, revision=(args.model_init_kwargs or {}).get("revision"))


def model(config: Training, source: Source, args: Any, tokens: Any) -> Any:
    """Return what TRL takes as its model: a name, or the model itself.

    TRL loads names itself, since DeepSpeed and FSDP want to be there when it happens.
    """
    ends = stop_tokens(config, source, tokens)
    place = locate(config.model)
    plain = place.gguf is None and not (Path(place.name) / "adapter_config.json").is_file()
    if plain and not ends:
        return place.name
    if args.beta and not plain:
        message = (
            f"beta above 0 needs a reference model, which TRL loads by itself, and {config.model} "
            "is no plain folder of weights: save it as one first"
        )
        raise source.fault(("trainer", "beta"), message)
    loaded = load_model(config.model, dtype="float32")
    if place.gguf:
        loaded.is_quantized = False  # its weights are plain numbers now, and can be trained
    if ends:
        # TRL ends a completion at every token that the model says ends one
        own = loaded.generation_config.eos_token_id
        own = own if isinstance(own, list) else [own]
        loaded.generation_config.eos_token_id = [*filter(None.__ne__, own), *ends]
    return loaded


def stop_tokens(config: Training, source: Source, tokens: Any) -> list[int]:
    """Return the tokens of the stop texts; raises `UsageError` for a text of several."""
    found = []
    for text in config.stop:
        ids = tokens.encode(text, add_special_tokens=False)
        if len(ids) != 1 or ids[0] == tokens.unk_token_id:
            message = (
                f"stop {text!r} is not one token of this model ({len(ids)}); take a shorter one"
            )
            raise source.fault(("stop",), message)
        found += ids
    return found


@contextmanager
def loading(config: Training) -> Generator[None]:
    """Say what to do where TRL cannot load the model."""
    try:
        yield
    except OSError as fault:
        if locate(config.model).local:
            raise InputError(f"cannot load the model {config.model}: {fault}") from fault
        raise hub.model_missing(config.model, fault) from fault


def freeze(model: Any, config: Training, source: Source) -> None:
    """Leave only the parameters trainable that `train_only` names."""
    if not config.train_only:
        return
    patterns = [re.compile(pattern) for pattern in config.train_only]
    for name, parameter in model.named_parameters():
        chosen = any(pattern.search(name) for pattern in patterns)
        parameter.requires_grad_(parameter.requires_grad and chosen)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        names = [name for name, _ in model.named_parameters()]
        near = UsageError.unknown("parameter", config.train_only[0], names[:6])
        raise source.fault(("train_only",), f"train_only leaves nothing to train: {near}, ...")

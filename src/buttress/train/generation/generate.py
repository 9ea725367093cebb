"""Completions of prompts, sampled in batches: transformers on any device, vLLM where installed.

Both engines are asked alike, by `Sampler.sample`. What one call returns depends on its arguments
alone, so that a batch gives the same completions on whichever rank and whenever it is sampled (on
one kind of machine: floating point differs between kinds).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from buttress.errors import UsageError
from buttress.train.generation.models import default_device, locate
from buttress.train.generation.sampling import Sampler, Sampling
from buttress.train.generation.with_transformers import TransformersSampler
from buttress.train.generation.with_vllm import VllmSampler

Engine = Literal["auto", "transformers", "vllm"]


def sampler_for(
    model: str,
    sampling: Sampling,
    *,
    engine: Engine = "auto",
    dtype: str = "auto",
    revision: str | None = None,
    batch_size: int = 64,
) -> Sampler:
    """Return the engine that samples from a model.

    Parameters
    ----------
    model
        See `models.locate`.
    sampling
        How tokens are drawn.
    engine
        ``auto`` is vLLM where it is installed and there is a GPU, else transformers.
    dtype, revision
        See `models.load_model`.
    batch_size
        Sequences that transformers computes side by side; vLLM decides for itself.
    """
    engine = engine_of(model, engine)
    if engine == "vllm":
        return VllmSampler(model, sampling, dtype=dtype, revision=revision)
    return TransformersSampler(
        model, sampling, dtype=dtype, revision=revision, batch_size=batch_size
    )


def engine_of(model: str, engine: Engine) -> Literal["transformers", "vllm"]:
    """Return the engine that ``auto`` means for a model on this machine."""
    if engine not in ("auto", "transformers", "vllm"):
        raise UsageError.unknown("engine", engine, ("auto", "transformers", "vllm"))
    if engine != "auto":
        return engine
    if find_spec("vllm") is None or locate(model).gguf is not None:
        return "transformers"
    return "transformers" if default_device() == "cpu" else "vllm"

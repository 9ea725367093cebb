"""Completions of prompts, sampled in batches: transformers on any device, vLLM where installed.

Both engines are asked alike, by `Sampler.sample`. What one call returns depends on its arguments
alone, so that a batch gives the same completions on whichever rank and whenever it is sampled (on
one kind of machine: floating point differs between kinds).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, Protocol

from buttress.errors import MissingExtraError, UsageError
from buttress.train.models import default_device, load_model, load_tokenizer, locate

Engine = Literal["auto", "transformers", "vllm"]
_TAIL = 64  # tokens in which a stop text is looked for: at least as many as it has


class Completion(NamedTuple):
    """One sampled text.

    Attributes
    ----------
    text
        Without special tokens, cut before the first stop text.
    length
        Tokens, the end token among them, as TRL counts.
    truncated
        The cap ended it: no end token and no stop text came.
    """

    text: str
    length: int
    truncated: bool


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; whatever the model's own generation_config says is overruled.

    Parameters
    ----------
    temperature
        0 takes the most likely token.
    top_p, top_k
        1 and 0 leave the distribution whole.
    max_tokens
        Cap on a completion.
    stop
        Texts at which a completion ends.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise UsageError(f"temperature must be 0 or more; got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top-p must lie above 0 and at most at 1; got {self.top_p}")
        if self.top_k < 0:
            raise UsageError(f"top-k must be 0 (off) or more; got {self.top_k}")
        if self.max_tokens < 1:
            raise UsageError(f"max-tokens must be 1 or more; got {self.max_tokens}")


class Sampler(Protocol):
    """What draws completions."""

    tokenizer: Any

    def sample(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        """Return n completions of each prompt."""
        ...


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


class TransformersSampler:
    """Samples with `generate` of transformers, on this rank's GPU or on the CPU."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        dtype: str = "auto",
        revision: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.tokenizer = load_tokenizer(model, revision=revision)
        self._model = load_model(model, revision=revision, dtype=dtype).eval()
        self._sampling = sampling
        self._batch = batch_size
        self._ends = _end_tokens(self._model, self.tokenizer)

    def sample(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        """Return n completions of each prompt, computed `batch_size` at a time."""
        found: list[list[Completion]] = [[] for _ in prompts]
        per_call = max(1, self._batch // n)
        for start in range(0, len(prompts), per_call):
            some = prompts[start : start + per_call]
            for done in range(0, n, self._batch):
                count = min(self._batch, n - done)
                drawn = self._draw(some, count, derived_seed(seed, start, done))
                for at, completions in enumerate(drawn):
                    found[start + at] += completions
        return found

    def _draw(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        import torch

        # a chat template writes the begin token itself
        begin = self.tokenizer.bos_token
        special = not (begin and all(prompt.startswith(begin) for prompt in prompts))
        inputs = self.tokenizer(
            list(prompts), return_tensors="pt", padding=True, add_special_tokens=special
        ).to(self._model.device)
        inputs.pop("token_type_ids", None)
        width = inputs["input_ids"].shape[1]
        devices = [self._model.device] if self._model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(seed)
            rows = self._model.generate(
                **inputs,
                generation_config=self._config(n, self._room(width)),
                stopping_criteria=self._stopping(width),
            )
        made = [self._completion(row) for row in rows[:, width:].tolist()]
        return [made[at : at + n] for at in range(0, len(made), n)]

    def _room(self, width: int) -> int:
        """Return the cap on new tokens; raises where the prompts fill the context already."""
        context = getattr(self._model.config, "max_position_embeddings", None)
        if context is None:
            return self._sampling.max_tokens
        if width >= context:
            raise UsageError(
                f"a prompt of {width} tokens fills the model's context of {context}; leave such "
                "problems out of the data set, or take a model with a longer context"
            )
        return min(self._sampling.max_tokens, context - width)

    def _config(self, n: int, room: int) -> Any:
        from transformers import GenerationConfig

        how, drawn = self._sampling, self._sampling.temperature > 0
        settings: dict[str, Any] = {
            "max_new_tokens": room,
            "do_sample": drawn,
            "num_return_sequences": n,
            "num_beams": 1,
            "repetition_penalty": 1.0,
            "no_repeat_ngram_size": 0,
            "eos_token_id": self._ends,
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        if drawn:
            settings |= {
                "temperature": how.temperature,
                "top_p": how.top_p,
                "top_k": how.top_k,
                "min_p": 0.0,
                "typical_p": 1.0,
            }
        return GenerationConfig(**settings)

    def _stopping(self, width: int) -> Any:
        """Return what ends a row at a stop text; that of transformers fails on some tokenizers."""
        import torch
        from transformers import StoppingCriteriaList

        stops = self._sampling.stop
        if not stops:
            return StoppingCriteriaList()

        def reached(rows: Any, scores: Any, **rest: Any) -> Any:
            tails = self.tokenizer.batch_decode(rows[:, max(width, rows.shape[1] - _TAIL) :])
            ended = [any(stop in tail for stop in stops) for tail in tails]
            return torch.tensor(ended, device=rows.device)

        return StoppingCriteriaList([reached])

    def _completion(self, tokens: list[int]) -> Completion:
        end = next((at for at, token in enumerate(tokens) if token in self._ends), None)
        if end is not None:
            tokens = tokens[: end + 1]
        elif self.tokenizer.pad_token_id is not None:
            # a row that a stop text ended is filled up
            while tokens and tokens[-1] == self.tokenizer.pad_token_id:
                tokens = tokens[:-1]
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return _stopped(text, len(tokens), end is not None, self._sampling.stop)


class VllmSampler:
    """Samples with vLLM; the temperature, the seed and the cap mean what they mean elsewhere."""

    def __init__(
        self, model: str, sampling: Sampling, *, dtype: str = "auto", revision: str | None = None
    ) -> None:
        try:
            from vllm import LLM
        except ImportError:
            raise MissingExtraError(
                "the engine vllm needs the package: pip install vllm (it needs a GPU)"
            ) from None
        place = locate(model)
        if place.gguf:
            raise UsageError(f"the engine vllm does not read {model}; use --engine transformers")
        self._sampling = sampling
        # generation_config="vllm" keeps the model's own sampling settings out
        self._llm = LLM(
            model=place.name, revision=revision, dtype=dtype, generation_config="vllm", seed=0
        )
        self.tokenizer = self._llm.get_tokenizer()

    def sample(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        """Return n completions of each prompt."""
        from vllm import SamplingParams

        how = self._sampling
        begin = getattr(self.tokenizer, "bos_token", None)
        texts = [one.removeprefix(begin) if begin else one for one in prompts]
        # one request and seed per completion of a prompt: its neighbours do not matter then
        wanted = [
            SamplingParams(
                n=n,
                temperature=how.temperature,
                top_p=how.top_p,
                top_k=how.top_k,
                max_tokens=how.max_tokens,
                stop=list(how.stop) or None,
                seed=derived_seed(seed, at) % 2**31,
            )
            for at in range(len(texts))
        ]
        found = self._llm.generate(texts, wanted, use_tqdm=False)
        return [
            [
                Completion(one.text, len(one.token_ids), one.finish_reason == "length")
                for one in answer.outputs
            ]
            for answer in found
        ]


def derived_seed(*parts: int) -> int:
    """Return one seed of several numbers, the same on every machine.

    >>> derived_seed(1, 2) == derived_seed(1, 2) != derived_seed(2, 1)
    True
    """
    text = " ".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def _stopped(text: str, length: int, ended: bool, stops: Sequence[str]) -> Completion:
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    if places:
        return Completion(text[: min(places)], length, truncated=False)
    return Completion(text, length, truncated=not ended)


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return every token that ends a completion: chat models have several."""
    known = getattr(model.generation_config, "eos_token_id", None)
    ends = known if isinstance(known, list) else [known]
    return sorted({one for one in (*ends, tokenizer.eos_token_id) if one is not None})

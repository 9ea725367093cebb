"""Completions sampled with `generate` of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from buttress.train.generation.models import load_model, load_tokenizer
from buttress.train.generation.sampling import Completion, Sampling, derived_seed
from buttress.train.threads import take_one_if_small

_TAIL = 64  # tokens in which a stop text is looked for: at least as many as it has


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
        take_one_if_small(self._model)
        self._sampling = sampling
        self._batch = batch_size
        self._ends = _end_tokens(self._model, self.tokenizer)
        self._context = getattr(self._model.config, "max_position_embeddings", None)

    def sample(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        """Return n completions of each prompt, computed `batch_size` at a time.

        A prompt that fills the model's context has none.
        """
        found: list[list[Completion]] = [[] for _ in prompts]
        fitting = [at for at, prompt in enumerate(prompts) if self._fits(prompt)]
        per_call = max(1, self._batch // n)
        for start in range(0, len(fitting), per_call):
            some = fitting[start : start + per_call]
            for done in range(0, n, self._batch):
                count = min(self._batch, n - done)
                seeded = derived_seed(seed, start, done)
                drawn = self._draw([prompts[at] for at in some], count, seeded)
                for at, completions in zip(some, drawn, strict=True):
                    found[at] += completions
        return found

    def _draw(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        import torch

        inputs = self._tokens(prompts, return_tensors="pt", padding=True).to(self._model.device)
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

    def _tokens(self, prompts: Sequence[str], **how: Any) -> Any:
        # a chat template writes the begin token itself
        begin = self.tokenizer.bos_token
        special = not (begin and all(prompt.startswith(begin) for prompt in prompts))
        return self.tokenizer(list(prompts), add_special_tokens=special, **how)

    def _fits(self, prompt: str) -> bool:
        return self._context is None or len(self._tokens([prompt])["input_ids"][0]) < self._context

    def _room(self, width: int) -> int:
        """Return the cap on new tokens of prompts of a width."""
        most = self._sampling.max_tokens
        return most if self._context is None else min(most, self._context - width)

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

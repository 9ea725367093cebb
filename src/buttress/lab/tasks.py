"""Tasks made by a procedure: any number of problems, each with one answer that is checked exactly.

A task is written in single characters, so that a model of 0.2 million parameters can learn it in
minutes on one CPU core. It stands for the situation, not for the subject matter: `LatentSkill` is a
model that is able to do the right thing and hardly ever does, which is where groups collapse.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from buttress.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Split = Literal["train", "held_out"]
Rule = Callable[[str], str]

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
HELD_OUT_OF = 10  # one problem in ten is never trained on


class Problem(NamedTuple):
    """What is asked and the only right answer."""

    prompt: str
    answer: str


class Demonstration(NamedTuple):
    """One line of the warm-up corpus: an answer by some rule, right or wrong."""

    prompt: str
    answer: str
    rule: str


def _ascending(digits: str) -> str:
    return "".join(sorted(digits))


def _descending(digits: str) -> str:
    return "".join(sorted(digits, reverse=True))


def _copied(digits: str) -> str:
    return digits


def _reversed(digits: str) -> str:
    return digits[::-1]


@dataclass(frozen=True)
class LatentSkill:
    """Sort the digits, learned from a corpus that mostly does something else.

    A problem is ``width`` digits and ``=``; the right answer is the digits in ascending order. In
    the warm-up corpus only the share `share` of the answers is right; the others follow one of
    three wrong rules (descending, copied, reversed) with equal probability. A model fitted to it
    knows the right rule and rarely uses it: groups of rollouts are all wrong, until reinforcement
    finds the rule. Every answer has the same width, so length gives nothing away.

    Parameters
    ----------
    width
        Digits per problem, 4 or more.
    share
        Share of right answers in the warm-up corpus, in (0, 1).

    Notes
    -----
    Problems whose four answers are not all different are not asked: no wrong rule is ever right.
    Whether a problem is held out depends on the problem alone, so the splits are disjoint for
    every pair of seeds.

    Examples
    --------
    >>> task = LatentSkill()
    >>> task.solve("407182=")
    '012478'
    >>> task.verify("407182=", "012478"), task.verify("407182=", "874210")
    (1.0, 0.0)
    """

    width: int = 6
    share: float = 0.03
    name: str = field(default="latent-skill", init=False)

    def __post_init__(self) -> None:
        if self.width < 4:
            raise UsageError(f"width must be 4 or more, so that the rules differ; got {self.width}")
        if not 0 < self.share < 1:
            raise UsageError(f"share must lie between 0 and 1; got {self.share!r}")

    @property
    def symbols(self) -> str:
        """The characters of prompts and answers."""
        return "0123456789="

    @property
    def rules(self) -> MappingProxyType[str, Rule]:
        """The rules of the corpus by name, the right one first."""
        return _RULES

    def solve(self, prompt: str) -> str:
        """Return the right answer to a prompt."""
        return _ascending(prompt.removesuffix("="))

    def verify(self, prompt: str, completion: str) -> float:
        """Return 1.0 where the completion is exactly the right answer, else 0.0."""
        return float(completion == self.solve(prompt))

    def rule_of(self, prompt: str, completion: str) -> str | None:
        """Return the name of the rule that a completion follows, or None."""
        digits = prompt.removesuffix("=")
        return next((name for name, rule in _RULES.items() if rule(digits) == completion), None)

    def problems(self, n: int, *, split: Split, seed: int) -> list[Problem]:
        """Return n different problems of a split; the same seed gives the same problems.

        Raises `UsageError` where the split is too small for n different problems.
        """
        most = 10**self.width // (2 * HELD_OUT_OF)
        if n > most:
            raise UsageError(
                f"{n} different problems asked, with width {self.width} at most {most}"
            )
        chosen: dict[str, None] = {}
        for digits in self._stream(split, seed):
            if len(chosen) == n:
                break
            chosen[digits] = None
        return [Problem(f"{digits}=", _ascending(digits)) for digits in chosen]

    def demonstrations(self, n: int, *, seed: int) -> list[Demonstration]:
        """Return n lines of the warm-up corpus, from problems of the train split."""
        names = list(_RULES)
        wrong = (1 - self.share) / (len(names) - 1)
        chances = [self.share] + [wrong] * (len(names) - 1)
        rule_indices = np.random.default_rng([seed, 1]).choice(len(names), size=n, p=chances)
        stream = self._stream("train", seed)
        return [
            Demonstration(f"{digits}=", _RULES[names[index]](digits), names[index])
            for index, digits in zip(rule_indices, stream, strict=False)
        ]

    def _stream(self, split: Split, seed: int) -> Iterator[str]:
        generator = np.random.default_rng([seed, 0])
        held_out = split == "held_out"
        while True:
            for row in generator.integers(0, 10, size=(1024, self.width)):
                digits = "".join(map(str, row))
                if is_held_out(digits) == held_out and self._tells_rules_apart(digits):
                    yield digits

    @staticmethod
    def _tells_rules_apart(digits: str) -> bool:
        return len({rule(digits) for rule in _RULES.values()}) == len(_RULES)


_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "ascending": _ascending,
        "descending": _descending,
        "copied": _copied,
        "reversed": _reversed,
    }
)

TASKS = MappingProxyType({"latent-skill": LatentSkill()})


def is_held_out(text: str) -> bool:
    """Return whether a problem belongs to the held-out split; depends on its text alone."""
    return zlib.crc32(text.encode()) % HELD_OUT_OF == 0


def make_tokenizer(task: LatentSkill) -> PreTrainedTokenizerFast:
    """Return a tokenizer of single characters, without spaces in what it decodes.

    Padding stands on the left, as generation needs it. An unknown character becomes ``<unk>``.
    """
    try:
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise MissingExtraError.of("the laboratory", "trl") from None

    words = [PAD, END, UNKNOWN, *task.symbols]
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=UNKNOWN)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )

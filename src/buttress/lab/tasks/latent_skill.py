"""Sorting digits, as a skill that a model has and hardly uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from buttress.errors import UsageError
from buttress.lab.tasks.base import HELD_OUT_OF, Problem, Rule, Split, Task, check_share, check_size


def _ascending(digits: str) -> str:
    return "".join(sorted(digits))


def _descending(digits: str) -> str:
    return "".join(sorted(digits, reverse=True))


def _copied(digits: str) -> str:
    return digits


def _reversed(digits: str) -> str:
    return digits[::-1]


@dataclass(frozen=True)
class LatentSkill(Task):
    """Sort the digits, learned from a corpus that mostly does something else.

    A problem is ``width`` digits and ``=``; the right answer is the digits in ascending order. In
    the warm-up corpus only the share `share` of the answers is right; the others follow one of
    three wrong rules (descending, copied, reversed) with equal probability. A model fitted to it
    knows the right rule and rarely uses it: groups of rollouts are all wrong, until reinforcement
    finds the rule.

    Parameters
    ----------
    width
        Digits per problem, 4 or more.
    share
        Share of right answers in the warm-up corpus, above 0; 1 is plain sorting.

    Notes
    -----
    Problems whose four answers are not all different are not asked: no wrong rule is ever right.

    Examples
    --------
    >>> task = LatentSkill()
    >>> task.solve("407182=")
    '012478'
    >>> task.verify("407182=", "012478"), task.verify("407182=", "874210")
    (1.0, 0.0)
    """

    name: ClassVar[str] = "latent-skill"
    width: int = 6
    share: float = 0.03

    def __post_init__(self) -> None:
        check_size("width", self.width, 4, "so that the rules differ")
        check_share(self.share)

    @property
    def symbols(self) -> str:
        """The characters of prompts and answers."""
        return "0123456789="

    @property
    def rules(self) -> MappingProxyType[str, Rule]:
        """The rules of the corpus by name, the right one first."""
        return _RULES

    def problems(self, n: int, *, split: Split, seed: int) -> list[Problem]:
        """Return n different problems of a split; the same seed gives the same problems.

        Raises `UsageError` where the split is too small for n different problems.
        """
        most = 10**self.width // (2 * HELD_OUT_OF)
        if n > most:
            raise UsageError(
                f"{n} different problems asked, with width {self.width} at most {most}"
            )
        return super().problems(n, split=split, seed=seed)

    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        """Yield rows of digits without end."""
        while True:
            for row in generator.integers(0, 10, size=(1024, self.width)):
                yield "".join(map(str, row))

    def asks(self, body: str) -> bool:
        """Return whether all four rules give different answers."""
        return len({rule(body) for rule in _RULES.values()}) == len(_RULES)


_RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "ascending": _ascending,
        "descending": _descending,
        "copied": _copied,
        "reversed": _reversed,
    }
)

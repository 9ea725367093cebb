"""Addition, multiplication, modular arithmetic and parity in single digits.

The right answer to a sum or product is written from the lowest digit up, as small models learn it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from buttress.lab.tasks.base import Rule, Task, check_share, check_size


def _low_first(value: int, width: int) -> str:
    return f"{value:0{width}d}"[::-1]


@dataclass(frozen=True)
class _Operation(Task):
    """Two numbers and a sign between them."""

    digits: int = 2
    share: float = 1.0
    sign: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_size("digits", self.digits, 1, "so that there is something to compute")
        check_share(self.share)

    @property
    def symbols(self) -> str:
        return f"0123456789{self.sign}="

    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        while True:
            for a, b in generator.integers(0, 10**self.digits, size=(1024, 2)):
                yield f"{a:0{self.digits}d}{self.sign}{b:0{self.digits}d}"

    def operands(self, body: str) -> tuple[int, int]:
        """Return the two numbers of a body."""
        a, b = body.split(self.sign)
        return int(a), int(b)


@dataclass(frozen=True)
class Addition(_Operation):
    """Add two numbers of `digits` digits; the sum stands lowest digit first.

    Wrong rules: digits added without carrying, the difference, the larger number.

    Examples
    --------
    >>> Addition(digits=2).solve("57+68=")
    '521'
    """

    name: ClassVar[str] = "addition"
    sign: ClassVar[str] = "+"

    @property
    def rules(self) -> Mapping[str, Rule]:
        width = self.digits + 1

        def without_carry(body: str) -> str:
            a, b = body.split("+")
            added = [(int(x) + int(y)) % 10 for x, y in zip(a, b, strict=True)]
            return "".join(map(str, reversed(added))) + "0"

        return {
            "sum": lambda body: _low_first(sum(self.operands(body)), width),
            "without carry": without_carry,
            "difference": lambda body: _low_first(abs(np.subtract(*self.operands(body))), width),
            "larger": lambda body: _low_first(max(self.operands(body)), width),
        }


@dataclass(frozen=True)
class Multiplication(_Operation):
    """Multiply two numbers of `digits` digits; the product stands lowest digit first.

    Wrong rules: the sum, the first number repeated, the digits multiplied one by one.

    Examples
    --------
    >>> Multiplication(digits=2).solve("12*11=")
    '2310'
    """

    name: ClassVar[str] = "multiplication"
    sign: ClassVar[str] = "*"
    digits: int = 2

    @property
    def rules(self) -> Mapping[str, Rule]:
        width = 2 * self.digits

        def one_by_one(body: str) -> str:
            a, b = body.split("*")
            found = [int(x) * int(y) % 10 for x, y in zip(a, b, strict=True)]
            return "".join(map(str, reversed(found))).ljust(width, "0")

        return {
            "product": lambda body: _low_first(int(np.prod(self.operands(body))), width),
            "sum": lambda body: _low_first(sum(self.operands(body)), width),
            "first": lambda body: body.split("*")[0] * 2,
            "one by one": one_by_one,
        }


@dataclass(frozen=True)
class Modular(_Operation):
    """Multiply two numbers modulo a prime; few possible answers, found by looking up.

    Wrong rules: the sum, the difference, the first number, each modulo the same prime.

    Examples
    --------
    >>> Modular(modulus=23).solve("07@08=")
    '10'
    """

    name: ClassVar[str] = "modular"
    sign: ClassVar[str] = "@"
    modulus: int = 97

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size("modulus", self.modulus, 5, "so that the rules differ")

    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        width = self._width
        while True:
            for a, b in generator.integers(0, self.modulus, size=(1024, 2)):
                yield f"{a:0{width}d}@{b:0{width}d}"

    @property
    def rules(self) -> Mapping[str, Rule]:
        def modulo(operation: np.ufunc) -> Rule:
            return lambda body: (
                f"{int(operation(*self.operands(body))) % self.modulus:0{self._width}d}"
            )

        return {
            "product": modulo(np.multiply),
            "sum": modulo(np.add),
            "difference": modulo(np.subtract),
            "first": lambda body: body.split("@")[0],
        }

    @property
    def _width(self) -> int:
        return len(str(self.modulus - 1))


@dataclass(frozen=True)
class Parity(Task):
    """Say of each prefix of a row of bits whether it holds an odd number of ones.

    Wrong rules: the bits themselves, their complement, the opposite parity.

    Examples
    --------
    >>> Parity(width=4).solve("1101=")
    '1001'
    """

    name: ClassVar[str] = "parity"
    width: int = 14
    share: float = 1.0

    def __post_init__(self) -> None:
        check_size("width", self.width, 4, "so that the rules differ")
        check_share(self.share)

    @property
    def symbols(self) -> str:
        return "01="

    @property
    def rules(self) -> Mapping[str, Rule]:
        return {
            "parity": lambda body: _running_parity(body, 0),
            "copied": lambda body: body,
            "complement": lambda body: body.translate(_FLIP),
            "opposite": lambda body: _running_parity(body, 1),
        }

    def bodies(self, generator: np.random.Generator) -> Iterator[str]:
        while True:
            for row in generator.integers(0, 2, size=(1024, self.width)):
                yield "".join(map(str, row))


_FLIP = str.maketrans("01", "10")


def _running_parity(bits: str, start: int) -> str:
    odd, found = start, []
    for bit in bits:
        odd ^= int(bit)
        found.append(str(odd))
    return "".join(found)

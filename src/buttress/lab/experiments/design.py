"""What an experiment is: arms that are compared, under conditions, over seeds.

A learning rate is chosen per arm and condition on tuning seeds, over one grid for all, and the
comparison is made on other seeds. Runs are paired: one seed has the same starting weights, problems
and sampling noise under every arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Record = dict[str, Any]
Changes = Mapping[str, Any]
TIERS = ("acr30", "acr45", "acr80", "acr95")
RATES = (1e-4, 2e-4, 4e-4)


@dataclass(frozen=True, slots=True)
class Arm:
    """One thing to compare: a remedy, or a control of one.

    Attributes
    ----------
    changes
        Fields of `Setting` that make the arm.
    rate_of
        The arm whose learning rate it takes; a control is run at the rate of what it controls.
    """

    label: str
    changes: Changes = field(default_factory=dict)
    rate_of: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Where the arms are compared: a starting point, and fields of `Setting` common to all arms.

    Attributes
    ----------
    start
        A name of `buttress.lab.starts`.
    changes
        Fields of `Setting`, and the numbers of training problems, ``problems``, and of held-out
        ones, ``held_out``.
    level
        The place on the axis of a figure, where conditions differ by a number.
    rates
        The grid of learning rates, where it is not the experiment's.
    """

    label: str
    start: str
    changes: Changes = field(default_factory=dict)
    level: float | None = None
    rates: tuple[float, ...] | None = None

    @classmethod
    def of_tiers(cls, *names: str) -> tuple[Condition, ...]:
        """Return one plain condition per starting point."""
        return tuple(cls(name, name) for name in names or TIERS)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question, the arms that answer it (the first is the baseline), and the size.

    Attributes
    ----------
    primary
        The measure that the conclusion speaks of.
    measures
        The measures of the table.
    contender
        The arm that is compared with every other one besides, not only with the baseline.
    probe
        What is measured besides the runs: ``probe(quick) -> rows``; added to the evidence.
    analyse
        What records and probe say, where the comparison of arms does not: a conclusion.
    figure
        A figure of its own: ``figure(records, probed)`` returns one of matplotlib's.
    """

    name: str
    question: str
    arms: tuple[Arm, ...] = ()
    conditions: tuple[Condition, ...] = ()
    steps: int = 200
    rates: tuple[float, ...] = RATES
    tuning_seeds: tuple[int, ...] = (100,)
    seeds: tuple[int, ...] = tuple(range(10))
    primary: str = "pass@1 course"
    measures: tuple[str, ...] = ("pass@1", "pass@1 course", "greedy", "pass@16", "entropy")
    axis: str | None = None
    contender: str | None = None
    probe: Callable[[bool], Sequence[Record]] | None = None
    analyse: Callable[[Sequence[Record], Sequence[Record]], str] | None = None
    figure: Callable[[Sequence[Record], Sequence[Record]], Any] | None = None
    quick_seeds: int = 3
    quick_steps: int = 100
    short: bool = False

    def quick(self) -> Experiment:
        """Return the same question at a size that takes minutes."""
        middle = self.rates[len(self.rates) // 2 :][:1]
        # one rate is no choice but what the condition is
        conditions = tuple(
            one if len(one.rates or ()) == 1 else replace(one, rates=None)
            for one in self.conditions
        )
        return replace(
            self,
            conditions=conditions,
            steps=min(self.steps, self.quick_steps),
            rates=middle,
            seeds=self.seeds[: self.quick_seeds],
            short=True,
        )

    def grid(self, condition: Condition) -> tuple[float, ...]:
        """Return the learning rates that are tried under a condition."""
        return condition.rates or self.rates

    def tuning(self) -> Iterator[Record]:
        """Yield the runs that choose the learning rates; none where there is no choice."""
        for seed in self.tuning_seeds:
            for condition in self.conditions:
                rates = self.grid(condition)
                for arm in self.arms:
                    if arm.rate_of is None and len(rates) > 1:
                        for rate in rates:
                            yield self._run(condition, arm, seed, rate)

    def comparison(self, tuned: Sequence[Record]) -> Iterator[Record]:
        """Yield the runs of the comparison, at the rates that the tuning runs speak for."""
        chosen = chosen_rates(tuned, self.primary)
        # seed by seed, so that what is finished early is balanced over conditions and arms
        for seed in self.seeds:
            for condition in self.conditions:
                rates = self.grid(condition)
                for arm in self.arms:
                    key = condition.label, arm.rate_of or arm.label
                    yield self._run(condition, arm, seed, chosen.get(key, rates[0]))

    def _run(self, condition: Condition, arm: Arm, seed: int, rate: float) -> Record:
        steps = condition.changes.get("steps", self.steps)
        if self.short:
            steps = min(steps, self.steps)
        return {
            "condition": condition.label,
            "arm": arm.label,
            "seed": seed,
            "lr": rate,
            "steps": steps,
        }


def chosen_rates(records: Sequence[Record], measure: str) -> dict[tuple[str, str], float]:
    """Return the learning rate with the best mean of a measure, per condition and arm."""
    scores: dict[tuple[str, str], dict[float, list[float]]] = {}
    for record in records:
        by_rate = scores.setdefault((record["condition"], record["arm"]), {})
        by_rate.setdefault(record["lr"], []).append(record[measure])
    return {
        key: max(by_rate, key=lambda rate: sum(by_rate[rate]) / len(by_rate[rate]))
        for key, by_rate in scores.items()
    }

"""Evaluate models on a data set: greedy pass@1, avg@n, pass@k, with intervals, and paired."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.measures import Difference, pass_at_k
from buttress.train.evaluation import scores
from buttress.train.evaluation.scores import Estimate
from buttress.train.outcomes import Plan, collect, is_last
from buttress.train.problems.data import Problems
from buttress.train.store import Outcome, Store

GREEDY = "greedy"
LARGEST_K = 256

Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Evaluated:
    """What came of one model.

    Attributes
    ----------
    model
        As the user named it.
    values
        By measure, shape ``(problem,)``: ``greedy``, ``avg@n``, ``pass@k``; NaN where unknown.
    faults
        Reasons why completions could not be judged, with their number.
    completions, truncated, tokens
        Over all that was sampled.
    """

    model: str
    values: Values
    faults: dict[str, int] = field(default_factory=dict)
    completions: int = 0
    truncated: int = 0
    tokens: int = 0

    def estimates(self, *, seed: int = 0) -> dict[str, Estimate]:
        """Return each measure with its interval: Wilson where all is 0 or 1, else bootstrap."""
        return {name: _estimate(values, seed) for name, values in self.values.items()}


@dataclass(frozen=True)
class Evaluation:
    """One model, or two on the same problems."""

    data: str
    problems: int
    models: tuple[Evaluated, ...]
    notes: tuple[str, ...] = ()
    seed: int = 0

    def differences(self) -> dict[str, Difference]:
        """Return the first model minus the second, per measure; empty for one model."""
        if len(self.models) < 2:
            return {}
        one, other = self.models
        return {
            name: scores.paired(other.values[name], values, seed=self.seed)
            for name, values in one.values.items()
            if name in other.values
        }


def evaluate(
    plans: Sequence[Plan],
    problems: Problems,
    out: Path | None,
    *,
    ks: Sequence[int] | None = None,
    threshold: float = 1.0,
) -> Evaluation | None:
    """Sample and judge, and return what came of it; None while other ranks are at work.

    Parameters
    ----------
    plans
        One per model; of each the greedy answer and `n` sampled ones are judged (n = 0: none).
    problems
        The data set.
    out
        Folder of the outcomes, from which an ended run goes on; None keeps them in memory.
    ks
        Of pass@k; by default 1, 2, 4, ... up to n and 256.
    threshold
        A completion succeeds when its score is at least this.
    """
    tries = {plan.n for plan in plans}
    ks = _checked_ks(ks, max(tries) if tries != {0} else 0)
    stores = []
    for plan in plans:
        folder = None if out is None else out / slug(problems.name) / slug(plan.model)
        stores.append(_stores(plan, problems, folder))
    if not is_last([store for some in stores for store in some.values()], len(problems)):
        return None
    found = [
        _evaluated(plan, some, ks, threshold) for plan, some in zip(plans, stores, strict=True)
    ]
    return Evaluation(problems.name, len(problems), tuple(found), problems.left_out, plans[0].seed)


def slug(name: str) -> str:
    """Return a name as the name of a folder.

    >>> slug("runs/avspo/model"), slug("Qwen/Qwen2.5-0.5B")
    ('runs-avspo-model', 'Qwen-Qwen2.5-0.5B')
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "model"


def measures(
    greedy: Sequence[Outcome],
    sampled: Sequence[Outcome],
    *,
    n: int,
    ks: Sequence[int],
    threshold: float = 1.0,
) -> Values:
    """Return the measures of outcomes per problem; NaN where nothing could be judged.

    Parameters
    ----------
    greedy, sampled
        Outcomes in the order of the problems; either may be empty.
    n
        Completions per problem among the sampled.
    ks
        Of pass@k.
    threshold
        The score of a success.
    """
    found: Values = {}
    if greedy:
        found[GREEDY] = np.array(
            [one.successes(threshold) if one.tries() else nan for one in greedy], dtype=np.float64
        )
    if sampled:
        successes = np.array([one.successes(threshold) for one in sampled], dtype=np.float64)
        tries = np.array([one.tries() for one in sampled], dtype=np.float64)
        with np.errstate(invalid="ignore"):
            found[f"avg@{n}"] = successes / tries
        found |= {f"pass@{k}": pass_at_k(successes, tries, k) for k in ks}
    return found


def _stores(plan: Plan, problems: Problems, folder: Path | None) -> dict[str, Store]:
    greedy = replace(plan, n=1, sampling=replace(plan.sampling, temperature=0.0))
    wanted = {GREEDY: greedy} | ({"sampled": plan} if plan.n else {})
    return {
        name: collect(
            one,
            problems,
            None if folder is None else folder / name,
            label=f"{plan.model} {name}",
        )
        for name, one in wanted.items()
    }


def _evaluated(
    plan: Plan, stores: dict[str, Store], ks: Sequence[int], threshold: float
) -> Evaluated:
    ordered = {
        name: [one for _, one in sorted(store.outcomes.items())] for name, store in stores.items()
    }
    everything = [outcome for outcomes in ordered.values() for outcome in outcomes]
    faults: dict[str, int] = {}
    for outcome in everything:
        for why, count in outcome.faults.items():
            faults[why] = faults.get(why, 0) + count
    return Evaluated(
        plan.model,
        measures(ordered[GREEDY], ordered.get("sampled", ()), n=plan.n, ks=ks, threshold=threshold),
        faults,
        completions=sum(len(outcome.scores) for outcome in everything),
        truncated=sum(outcome.truncated for outcome in everything),
        tokens=sum(sum(outcome.lengths) for outcome in everything),
    )


def _checked_ks(ks: Sequence[int] | None, n: int) -> list[int]:
    if ks is None:
        return [2**power for power in range(9) if 2**power <= n]
    wrong = [k for k in ks if not 1 <= k <= n]
    if wrong:
        raise UsageError(
            f"pass@{wrong[0]} needs at least {wrong[0]} completions per problem and n is {n}; "
            "raise --samples"
            if wrong[0] > n
            else f"k of pass@k must be 1 or more; got {wrong[0]}"
        )
    return sorted(set(ks))


def _estimate(values: NDArray[np.float64], seed: int) -> Estimate:
    binary = bool(np.isin(values[np.isfinite(values)], (0, 1)).all())
    return scores.rate(values) if binary else scores.mean(values, seed=seed)

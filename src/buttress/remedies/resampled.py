"""What ways of sampling would have made of a recorded run: its groups, kept, skipped, reweighted.

Nobody can know the rollouts that another way of sampling would have drawn. What is recorded stands
in for them: a further batch of a step is one of a later step, a prompt that is visited goes as it
went. So every number here is an estimate, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import Groups, Tolerance
from buttress.measures.statistics import ratio
from buttress.measures.summary import GroupSummary
from buttress.remedies.pools import DifficultyPools
from buttress.remedies.registry import create
from buttress.remedies.sampling import DynamicSampling, Greso, prompts_of

Steps = Sequence[tuple[NDArray[np.int64], Groups]]


class Resampled(NamedTuple):
    """The recorded groups as a way of sampling would have used them.

    Attributes
    ----------
    weight
        How often each group is trained on, in the order of the steps; may be a fraction.
    rollouts
        Rollouts that it generates over the run.
    how
        How both were estimated.
    """

    weight: NDArray[np.float64]
    rollouts: float
    how: str


def resampled(
    name: str, steps: Steps, tolerance: Tolerance, options: Mapping[str, Any]
) -> Resampled:
    """Play a recorded run through a sampler of the catalogue.

    Parameters
    ----------
    steps
        Places and groups of each step, in order.
    options
        Of the sampler. `bounds` are those of the recorded rewards unless they are given.

    Raises
    ------
    UsageError
        Where the log lacks what the sampler needs.
    """
    if name not in _PLAYS:
        raise UsageError(f"there is no way to replay {name}")
    return _PLAYS[name](steps, tolerance, dict(options))


def _dynamic(steps: Steps, tolerance: Tolerance, options: dict[str, Any]) -> Resampled:
    kept = _refilled(steps, tolerance, options)
    thrown = _refilled(steps, tolerance, options | {"keep_surplus": False})
    summaries = [GroupSummary.of(groups, tolerance) for _, groups in steps]
    mixed = sum(int(one.mixed.sum()) for one in summaries)
    n = sum(len(groups) for _, groups in steps)
    recorded = sum(groups.n_samples for _, groups in steps)
    said = [
        "estimate: each step's batch is filled up with mixed groups of the following steps (at the "
        f"end of the run, of the ones before), from at most {kept.limit} batches",
        f"{n / mixed:.2f} times the rollouts if all steps were alike" if mixed else "",
        f"{ratio(thrown.rollouts, recorded):.2f} times if the surplus is thrown away, as verl does",
        f"{kept.short} of {len(steps)} steps do not fill up" if kept.short else "",
    ]
    return Resampled(kept.weight, kept.rollouts, "; ".join(filter(None, said)))


class _Refilled(NamedTuple):
    weight: NDArray[np.float64]
    rollouts: int
    short: int
    limit: int


def _refilled(steps: Steps, tolerance: Tolerance, options: Mapping[str, Any]) -> _Refilled:
    widest = max((len(groups) for _, groups in steps), default=1)
    sampler: DynamicSampling = create(
        "dynamic_sampling",
        **{"wanted": max(widest, 1), "on_limit": "short", "tolerance": tolerance, **options},
    )
    first = np.concatenate([[0], np.cumsum([len(groups) for _, groups in steps])]).astype(int)
    weight = np.zeros(int(first[-1]))
    rollouts = short = 0
    for at, (_, groups) in enumerate(steps):
        sampler.wanted = max(len(groups), 1)
        for ahead in range(sampler.max_batches):
            place = _mirrored(at + ahead, len(steps))
            items = range(int(first[place]), int(first[place + 1]))
            sampler.offer(steps[place][1], items=items)
            if sampler.full:
                break
        taken = sampler.take()
        np.add.at(weight, taken, 1.0)
        rollouts += sampler.reading["rollouts"]
        short += len(taken) < sampler.wanted
    return _Refilled(weight, rollouts, short, sampler.max_batches)


def _mirrored(place: int, n: int) -> int:
    """Return the place in 0..n-1 that a walk reaches which turns round at both ends.

    Examples
    --------
    >>> [_mirrored(place, 3) for place in range(7)]
    [0, 1, 2, 1, 0, 1, 2]
    """
    turn = max(2 * (n - 1), 1)
    place %= turn
    return place if place < n else turn - place


def _greso(steps: Steps, tolerance: Tolerance, options: dict[str, Any]) -> Resampled:
    sampler: Greso = create("greso", **(_levels(steps) | options))
    weight, rollouts = [], 0.0
    for _, groups in _with_prompts("greso", steps):
        prompts = prompts_of(groups)
        chance = sampler.probability(prompts)
        sampler.update(groups.select(sampler.choose(prompts)))
        weight.append(chance)
        rollouts += float(chance @ groups.sizes)
    how = (
        "estimate: the sampler decides over every recorded visit, from the visits that it let "
        "through; a skipped prompt is not replaced by another"
    )
    return Resampled(_joined(weight), rollouts, how + _visits(steps))


def _pools(steps: Steps, tolerance: Tolerance, options: dict[str, Any]) -> Resampled:
    sampler: DifficultyPools = create("difficulty_pools", **(_levels(steps) | options))
    weight = []
    for _, groups in _with_prompts("difficulty_pools", steps):
        share = sampler.weight_of(prompts_of(groups))
        total = share.sum()
        weight.append(share * (len(share) / total) if total > 0 else share)
        sampler.update(groups)
    how = (
        "estimate: recorded groups weighted by the pools of their prompts, batches of the recorded "
        "size"
    )
    rollouts = float(sum(groups.n_samples for _, groups in steps))
    return Resampled(_joined(weight), rollouts, how + _visits(steps))


_PLAYS: dict[str, Callable[[Steps, Tolerance, dict[str, Any]], Resampled]] = {
    "dynamic_sampling": _dynamic,
    "greso": _greso,
    "difficulty_pools": _pools,
}


def _with_prompts(name: str, steps: Steps) -> Steps:
    if any((groups.prompt >= 0).any() for _, groups in steps):
        return steps
    raise UsageError(f"{name} needs to know which prompt a group belongs to; this log does not say")


def _visits(steps: Steps) -> str:
    codes = np.concatenate([groups.prompt for _, groups in steps])
    codes = codes[codes >= 0]
    once = len(np.unique(codes)) == len(codes)
    return "; no prompt comes twice in this log, so that it learns nothing" if once else ""


def _levels(steps: Steps) -> dict[str, tuple[float, float]]:
    """Return what a wrong and a right answer is worth: (0, 1), widened to what was recorded."""
    rewards = [groups.rewards for _, groups in steps]
    low = min((float(np.fmin.reduce(one, initial=0.0)) for one in rewards), default=0.0)
    high = max((float(np.fmax.reduce(one, initial=1.0)) for one in rewards), default=1.0)
    return {"bounds": (max(low, -1e9), min(high, 1e9))}


def _joined(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *parts])

"""Experiments: what is compared, with which seeds; each run is one line of a file.

A learning rate is chosen per method on tuning seeds, over one grid for all, and the comparison is
made on other seeds. Runs are paired: one seed has the same starting weights, problems and sampling
noise under every method.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from buttress.lab.tiers import TIERS

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arm:
    """One thing to compare: a remedy with its options, or a control of one."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    control: str = "none"
    resample: int = 1
    skip_silent_steps: bool = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """A question, the arms that answer it (the first is the baseline), and the size."""

    name: str
    question: str
    arms: tuple[Arm, ...]
    tiers: tuple[str, ...] = tuple(TIERS)
    steps: int = 200
    rates: tuple[float, ...] = (1e-4, 2e-4, 4e-4)
    tuning_seeds: tuple[int, ...] = (100,)
    seeds: tuple[int, ...] = tuple(range(10))

    def quick(self) -> Experiment:
        """Return the same question at a size that takes minutes."""
        return Experiment(
            self.name, self.question, self.arms, self.tiers, 100, self.rates[1:2], (100,), (0, 1, 2)
        )


_GRPO = Arm("grpo", "grpo")
EXPERIMENTS = MappingProxyType(
    {
        one.name: one
        for one in (
            Experiment(
                "posterior",
                "Does the posterior baseline beat GRPO and AVSPO at equal rollouts, at every "
                "starting collapse rate?",
                (
                    _GRPO,
                    Arm("avspo", "avspo"),
                    Arm("dapo", "grpo", resample=4),
                    Arm("posterior", "posterior"),
                    Arm("posterior, strength 16", "posterior", {"strength": 16.0}),
                    Arm(
                        "posterior, strength 16, GRPO's norm",
                        "posterior",
                        {"strength": 16.0},
                        control="grpo_norm",
                    ),
                ),
            ),
            Experiment(
                "zero-gradient-step",
                "What does skipping the optimiser step of fully tied batches change?",
                (_GRPO, Arm("grpo, silent steps skipped", "grpo", skip_silent_steps=True)),
            ),
            Experiment(
                "filtering",
                "Is resampling tied groups worth its rollouts?",
                (_GRPO, Arm("filter_drop", "filter_drop"), Arm("dapo", "grpo", resample=4)),
            ),
        )
    }
)


def planned(experiment: Experiment, rates: dict[tuple[str, str], float] | None) -> Iterator[Record]:
    """Yield the runs of the tuning phase, or with chosen rates those of the comparison."""
    # seed by seed, so that what is finished early is balanced over tiers and arms
    for seed in experiment.seeds if rates else experiment.tuning_seeds:
        for tier in experiment.tiers:
            for arm in experiment.arms:
                for rate in (rates[tier, arm.label],) if rates else experiment.rates:
                    yield {
                        "tier": tier,
                        "arm": arm.label,
                        "seed": seed,
                        "lr": rate,
                        "steps": experiment.steps,
                    }


def run_experiment(
    experiment: Experiment, path: Path, *, workers: int | None = None, report: Any = print
) -> list[Record]:
    """Run what is missing in a file of results and return all records of the comparison.

    Safe to interrupt: each finished run is one appended line, and a torn last line is run again.
    """
    tuning = _run_missing(experiment, list(planned(experiment, None)), path, workers, report)
    rates = chosen_rates(tuning)
    return _run_missing(experiment, list(planned(experiment, rates)), path, workers, report)


def chosen_rates(records: list[Record]) -> dict[tuple[str, str], float]:
    """Return the learning rate of the best mean pass@1 over the course, per tier and arm."""
    scores: dict[tuple[str, str], dict[float, list[float]]] = {}
    for record in records:
        by_rate = scores.setdefault((record["tier"], record["arm"]), {})
        by_rate.setdefault(record["lr"], []).append(record["pass@1 course"])
    return {
        key: max(by_rate, key=lambda rate: sum(by_rate[rate]) / len(by_rate[rate]))
        for key, by_rate in scores.items()
    }


def _run_missing(
    experiment: Experiment, wanted: list[Record], path: Path, workers: int | None, report: Any
) -> list[Record]:
    done = {_key(record): record for record in read_records(path)}
    missing = [run for run in wanted if _key(run) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    arms = {arm.label: arm for arm in experiment.arms}
    with path.open("a") as file, ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [pool.submit(run_once, arms[run["arm"]], run) for run in missing]
        for place, future in enumerate(as_completed(futures), start=1):
            record = future.result()
            done[_key(record)] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            report(f"{place}/{len(missing)} {record['tier']} {record['arm']} seed {record['seed']}")
    return [done[_key(run)] for run in wanted]


def read_records(path: Path) -> list[Record]:
    """Return the finished runs of a file; torn lines are left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def run_once(arm: Arm, run: Record) -> Record:
    """Train once and return the run with what came of it."""
    import numpy as np
    import torch

    from buttress.lab.policy_training import Setting, train_policy
    from buttress.lab.tiers import problem_sets

    torch.set_num_threads(1)  # two threads in one process are slower than one
    model = _start(run["tier"])
    problems, held_out = problem_sets(run["seed"])
    setting = Setting(
        method=arm.method,
        options=arm.options,
        control=arm.control,  # type: ignore[arg-type]
        resample=arm.resample,
        skip_silent_steps=arm.skip_silent_steps,
        steps=run["steps"],
        lr=run["lr"],
        seed=run["seed"],
        evaluate_every=max(1, run["steps"] // 6),
    )
    history = train_policy(model, problems, held_out, setting)
    course = history.evaluations
    final = {name: course[-1][name] for name in ("greedy", "pass@1", "pass@16")}
    means = {name: float(np.mean(values)) for name, values in history.steps.items()}
    return {
        **run,
        **final,
        "pass@1 course": float(np.mean([one["pass@1"] for one in course[1:]])),
        "initial pass@1": course[0]["pass@1"],
        "initial acr": float(np.mean(history.steps["acr"][:5])),
        "acr": means["acr"],
        "acr after": means["acr_after"],
        "norm": means["norm"],
        "entropy": float(np.mean(history.steps["entropy"][-20:])),
        "rollouts": int(history.steps["rollouts"][-1]),
        "seconds": history.seconds,
    }


def _start(tier: str) -> Any:
    import copy

    return copy.deepcopy(_starting_point(tier))


@cache
def _starting_point(tier: str) -> Any:
    from buttress.lab.tiers import starting_point

    return starting_point(TIERS[tier])


def _key(run: Record) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("tier", "arm", "seed", "lr", "steps"))

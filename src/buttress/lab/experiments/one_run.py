"""One training run of an experiment, in a process of its own, and what is kept of it."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress.lab.experiments.design import Arm, Condition, Record

if TYPE_CHECKING:
    from buttress.lab.policy_training import History

PROBLEMS = ("problems", "held_out")  # how many there are: changes of a condition, not of a setting
EARLY = 20  # steps of the early ACR: a tenth of a run


def run_once(condition: Condition, arm: Arm, run: Record) -> Record:
    """Train once and return the run with what came of it."""
    import torch

    from buttress.lab.policy_training import Setting, train_policy
    from buttress.lab.starts import STARTS, problem_sets

    torch.set_num_threads(1)  # two threads in one process are slower than one
    torch.manual_seed(run["seed"])
    changes = {**condition.changes, **arm.changes}
    changes |= {name: run[name] for name in ("seed", "lr", "steps")}
    sizes = {name: changes.pop(name, None) for name in PROBLEMS}
    setting = Setting(evaluate_every=max(1, run["steps"] // 6), **changes)
    problems, held_out = problem_sets(
        STARTS[condition.start], run["seed"], train=sizes["problems"], held_out=sizes["held_out"]
    )
    history = train_policy(_start(condition.start), problems, held_out, setting)
    return {**run, **summary(history)}


def summary(history: History) -> Record:
    """Return the numbers that are kept of a run."""
    course, steps = history.evaluations, history.steps
    scores = [name for name in course[-1] if name != "step"]
    return {
        **{name: course[-1][name] for name in scores},
        "pass@1 course": float(np.mean([one["pass@1"] for one in course[1:]])),
        "initial pass@1": course[0]["pass@1"],
        "lost": float(course[-1]["pass@1"] < course[0]["pass@1"]),
        "initial greedy": course[0]["greedy"],
        "initial acr": float(np.mean(steps["acr_drawn"][:5])),
        "early acr": float(np.mean(steps["acr_drawn"][:EARLY])),
        "early pass rate": float(np.mean(steps["correct"][:EARLY])),
        "acr": float(np.mean(steps["acr_drawn"])),
        "acr after": float(np.mean(steps["acr_after"])),
        "tied share": float(np.mean(steps["tied_share"])),
        "norm": float(np.mean(steps["norm"])),
        "entropy": float(np.mean(steps["entropy"][-20:])),
        "forgotten": history.forgotten(),
        "updates": len(steps["acr"]),
        "rollouts": int(steps["rollouts"][-1]),
        "seconds": history.seconds,
    }


def _start(name: str) -> Any:
    return copy.deepcopy(_starting_point(name))


@cache
def _starting_point(name: str) -> Any:
    from buttress.lab.starts import STARTS, starting_point

    return starting_point(STARTS[name])

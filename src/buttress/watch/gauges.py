"""The numbers of a watched run for Prometheus, under the names that `bt.Monitor` gives them."""

from __future__ import annotations

import math

import numpy as np

from buttress.groups import Groups
from buttress.hooks.monitor.readout import SHARES, shares
from buttress.hooks.monitor.step_statistics import StepStatistics
from buttress.hooks.sinks.outbox import Row
from buttress.report import Diagnosis
from buttress.rules import Case, Severity

WINDOW = 60  # steps, as of the monitor


def row_of(diagnosis: Diagnosis) -> Row:
    """Return the numbers of the last step, of the last `WINDOW` steps, and of the run.

    Shares of the last step have the monitor's plain names, those of the window end in ``_window``;
    ``acr_run`` is the collapse rate of the run. NaN where a number is unknown.
    """
    case, measures = diagnosis.case, diagnosis.measures
    steps = case.steps.step
    last = int(steps[-1]) if len(steps) else 0
    numbers = {name: value for name, value in _shares(case, last).items() if name in SHARES}
    since = int(steps[-WINDOW:][0]) if len(steps) else 0
    window = _shares(case, since)
    numbers |= {f"{name}_window": window[name] for name in SHARES}
    numbers |= {
        "acr_run": _number(measures["acr"]),
        "effective_batch_run": _number(measures["effective_batch"]),
        "wasted_tokens": _number(measures["wasted_tokens"]),
        "rollouts": float(case.groups.n_samples),
        "steps": float(len(steps)),
        "problems": float(len(diagnosis.problems)),
    }
    numbers |= {f"groups/{kind}": float(n) for kind, n in measures["groups"].items()}
    for severity in Severity:
        found = sum(one.severity is severity for one in diagnosis.findings)
        numbers[f"findings/{severity.label}"] = float(found)
    return Row(last, {f"buttress/{name}": value for name, value in numbers.items()})


def _shares(case: Case, since: int) -> dict[str, float]:
    """Return the shares of the groups from a step on; unknown where the grouping is broken."""
    groups: Groups = case.groups.select(np.asarray(case.groups.step >= since))
    known = len(groups) > 0 and not case.undefined
    return shares(StepStatistics.of(groups, case.tolerance) if known else None, case.levels)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)

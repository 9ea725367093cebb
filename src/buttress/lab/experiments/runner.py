"""Runs what is missing of an experiment, each finished run one line of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from buttress.lab.experiments.design import Experiment, Record
from buttress.lab.experiments.one_run import run_once


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    workers: int | None = None,
    report: Callable[[str], Any] = print,
) -> list[Record]:
    """Run what is missing in a file of results and return the records of the comparison.

    Safe to interrupt: each finished run is one appended line, and a torn last line is run again.
    """
    tuned = run_missing(experiment, list(experiment.tuning()), path, workers, report)
    wanted = list(experiment.comparison(tuned))
    return run_missing(experiment, wanted, path, workers, report)


def run_missing(
    experiment: Experiment,
    wanted: Sequence[Record],
    path: Path,
    workers: int | None,
    report: Callable[[str], Any],
) -> list[Record]:
    """Return the records of the wanted runs, after running those that the file lacks."""
    done = {_key(record): record for record in read_records(path)}
    missing = [run for run in wanted if _key(run) not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    arms = {arm.label: arm for arm in experiment.arms}
    conditions = {one.label: one for one in experiment.conditions}
    with path.open("a") as file, ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        futures = [
            pool.submit(run_once, conditions[run["condition"]], arms[run["arm"]], run)
            for run in missing
        ]
        for place, future in enumerate(as_completed(futures), start=1):
            record = future.result()
            done[_key(record)] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            what = f"{record['condition']} {record['arm']} seed {record['seed']}"
            report(f"{place}/{len(missing)} {what}")
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


def _key(run: Record) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("condition", "arm", "seed", "lr", "steps"))

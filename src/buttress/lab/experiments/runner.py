"""Runs what is missing of an experiment, each finished run one line of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from buttress.errors import ButtressError
from buttress.lab.experiments.design import Experiment, Record
from buttress.lab.experiments.one_run import run_once
from buttress.lab.experiments.pools import pool


def run_experiment(
    experiment: Experiment,
    path: Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    report: Callable[[str], Any] = print,
) -> list[Record]:
    """Run what is missing in a file of results and return the records of the comparison.

    Safe to interrupt: each finished run is one appended line, and a torn last line is run again.
    Where a run fails or its worker dies the others are finished and kept; then `ButtressError`.
    """

    def run(wanted: list[Record]) -> list[Record]:
        return run_missing(experiment, wanted, path, workers=workers, ray=ray, report=report)

    tuned = run(list(experiment.tuning()))
    return run(list(experiment.comparison(tuned)))


def run_missing(
    experiment: Experiment,
    wanted: Sequence[Record],
    path: Path,
    *,
    workers: int | None,
    ray: str | None,
    report: Callable[[str], Any],
) -> list[Record]:
    """Return the records of the wanted runs, after running those that the file lacks."""
    done = {_key(record): record for record in read_records(path)}
    missing = [run for run in wanted if _key(run) not in done]
    if not missing:
        return [done[_key(run)] for run in wanted]
    path.parent.mkdir(parents=True, exist_ok=True)
    _end_line(path)
    arms = {arm.label: arm for arm in experiment.arms}
    conditions = {one.label: one for one in experiment.conditions}
    failed: list[str] = []
    with path.open("a") as file, pool(workers, ray) as runs:
        futures = {
            runs.submit(run_once, conditions[run["condition"]], arms[run["arm"]], run): run
            for run in missing
        }
        for place, future in enumerate(as_completed(futures), start=1):
            run = futures[future]
            what = f"{run['condition']} {run['arm']} seed {run['seed']}"
            try:
                record = future.result()
            except Exception as fault:  # a bad run, a dead worker, a lost node
                failed.append(f"{what}: {type(fault).__name__}: {fault}")
                continue
            done[_key(record)] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            report(f"{place}/{len(missing)} {what}")
    if failed:
        raise ButtressError(
            f"{len(failed)} of {len(missing)} runs failed; the others are kept in {path}, and the "
            f"same command runs what is missing. The first: {failed[0]}"
        )
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


def _end_line(path: Path) -> None:
    """End a torn last line, so that the next record does not become a part of it."""
    if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
        with path.open("a") as file:
            file.write("\n")


def _key(run: Record) -> tuple[Any, ...]:
    return tuple(run[name] for name in ("condition", "arm", "seed", "lr", "steps"))

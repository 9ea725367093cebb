"""Commands of the laboratory: demo, and `lab` with its own."""

from __future__ import annotations

import sys
from json import dumps
from typing import Annotated

from cyclopts import App, Parameter

from buttress.cli.options import standard_output
from buttress.errors import UsageError

lab = App(name="lab", help="The CPU laboratory: does a remedy help? Needs the extra `trl`.")


@lab.command(name="list")
def lab_list() -> int:
    """List the experiments, each with the question that it asks."""
    from buttress.lab.experiments import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        sys.stdout.write(f"{experiment.name}: {experiment.question}\n")
    return 0


@lab.command(name="run")
def lab_run(
    name: str,
    /,
    *,
    out: str = "buttress-lab",
    quick: Annotated[bool, Parameter(negative="")] = False,
    workers: int | None = None,
    ray: str | None = None,
) -> int:
    """Run an experiment, or what is missing of it, and write its table, figure and conclusion.

    Parameters
    ----------
    name
        A name from `buttress lab list`, or all.
    out
        Directory of the records and the evidence. An interrupted run goes on where it stopped.
    quick
        Few seeds and steps: minutes instead of hours; the table then says little.
    workers
        Processes; by default one per core.
    ray
        Address of a Ray cluster that takes the runs instead: auto, HOST:PORT, or local to start
        one here. The results are the same. Needs the extra ray.
    """
    from buttress.lab.experiments import EXPERIMENTS, run_and_write

    if name != "all" and name not in EXPERIMENTS:
        raise UsageError.unknown("experiment", name, EXPERIMENTS)
    for one in EXPERIMENTS if name == "all" else (name,):
        for path in run_and_write(EXPERIMENTS[one], out, quick=quick, workers=workers, ray=ray):
            sys.stdout.write(f"{path}\n")
    return 0


@lab.command(name="report")
def lab_report(
    path: str = "buttress-lab",
    /,
    *,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show what the experiments of a directory found.

    Parameters
    ----------
    path
        Directory that `buttress lab run` wrote, or docs/evidence of the repository.
    json
        Print a list of objects with experiment, command, seeds and conclusion.
    """
    from pathlib import Path

    from buttress.lab.experiments.evidence import evidence_index, render_index

    found = evidence_index(Path(path))
    if json:
        sys.stdout.write(dumps(found, indent=1) + "\n")
    else:
        render_index(found, standard_output())
    return 0


def demo(
    *,
    out: str = "buttress-demo",
    steps: int | None = None,
    seed: int = 0,
    html: str | None = None,
) -> int:
    """Train a tiny language model with GRPO, AVSPO and posterior, diagnose the runs, write reports.

    Needs the extra `trl`; takes one to three minutes on two cores; downloads nothing.

    Parameters
    ----------
    out
        Directory for the runs and their reports.
    steps
        Training steps of each run; by default as many as the task needs.
    seed
        Seed of data order and sampling, the same for all runs.
    html
        Write the HTML report here instead of into the directory.
    """
    from buttress.lab.show import show_demo

    show_demo(out, steps=steps, seed=seed, html=html, console=standard_output())
    return 0

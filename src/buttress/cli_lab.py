"""`buttress lab`: the commands of the laboratory."""

from __future__ import annotations

import sys

from cyclopts import App

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
    name: str, /, *, out: str = "buttress-lab", quick: bool = False, workers: int | None = None
) -> int:
    """Run an experiment, or what is missing of it, and write its table.

    Parameters
    ----------
    name
        A name from `buttress lab list`.
    out
        Directory of the records and the table. An interrupted run goes on where it stopped.
    quick
        Few seeds and steps: minutes instead of hours; the table then says little.
    workers
        Processes; by default one per core.
    """
    from buttress.lab.evidence import run_and_write

    for path in run_and_write(name, out, quick=quick, workers=workers):
        sys.stdout.write(f"{path}\n")
    return 0

"""`buttress bench`: measure buttress itself."""

from __future__ import annotations

import sys
from json import dumps
from typing import Annotated

from cyclopts import App, Parameter

from buttress.cli.options import names, standard_output
from buttress.errors import UsageError

bench = App(name="bench", help="Measure buttress itself.")


@bench.command(name="diagnosis")
def bench_diagnosis(
    *,
    out: str | None = None,
    runs: int | None = None,
    tools: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Score diagnoses on runs with known causes: precision and recall per cause, false alarms.

    Runs that were recorded in the laboratory get one or two causes each (a length cap, a parser
    that finds nothing, shuffled groups, ...) or none, are written as TRL, verl or plain JSONL would
    log them, and are diagnosed. The corpus follows from the number of the run alone.

    Parameters
    ----------
    out
        Directory for diagnosis.json and diagnosis.md, and for the environments of other tools.
    runs
        Size of the corpus; 280 by default, which takes one to two minutes.
    tools
        Tools to score beside buttress: rldoctor, rlvr-audit, rlprobe. Each is installed from PyPI
        into an environment of its own below --out. Without this option, those that stand there.
    json
        Print runs and, by tool, macro_f1, false_alarms and per_cause.
    """
    from pathlib import Path

    from buttress.lab.yardstick.bench import RUNS, run_bench, tell
    from buttress.lab.yardstick.show import render, write
    from buttress.lab.yardstick.tools import BUTTRESS, check

    size = RUNS if runs is None else runs
    if size < 1:
        raise UsageError(f"--runs must be 1 or more; got {size}")
    folder = None if out is None else Path(out)
    chosen = names(tools)
    check(chosen)
    if folder is None and set(chosen) - {BUTTRESS}:
        raise UsageError("--tools needs --out, where the environments of the tools stand")
    found = run_bench(size, tools=chosen or None, out=folder, say=tell)
    if folder is not None:
        write(found, folder)
    if json:
        sys.stdout.write(dumps(found.as_dict(), indent=1) + "\n")
    else:
        render(found, standard_output())
    return 0

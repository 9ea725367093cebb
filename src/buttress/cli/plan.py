"""The command that looks ahead: plan."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from buttress.cli.options import OUTPUT, Reading, names, standard_output
from buttress.errors import UsageError


def plan(
    path: str,
    /,
    *,
    sizes: Annotated[list[str] | None, Parameter(negative="")] = None,
    budget: float | None = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
) -> int:
    """Say what to expect at other group sizes: collapse rate, cost, effective batch, the best one.

    Parameters
    ----------
    path
        A file, directory or glob with the rollouts of a run.
    sizes
        Group sizes, comma-separated (default: 2,4,8,16,32,64).
    budget
        Rollouts per step (default: as many as the run has).
    json
        Print the plan as JSON on standard output, and nothing else there.
    html
        Write the plan as one self-contained HTML file.
    """
    from buttress.report import plan as planned
    from buttress.report.hostile import safe_text

    found = planned.Plan.of(how.case(path, quiet=json), _sizes(names(sizes)), budget)
    written = None if html is None else planned.to_html(found, html)
    if json:
        sys.stdout.write(found.to_json() + "\n")
        return 0
    console = standard_output()
    planned.render(found, console)
    if written:
        console.print(f"report: {safe_text(written)}", markup=False, highlight=False)
    return 0


def _sizes(given: list[str]) -> list[int] | None:
    try:
        return [int(one) for one in given] or None
    except ValueError:
        raise UsageError(
            f"--sizes takes whole numbers, e.g. 4,8,16; got {','.join(given)!r}"
        ) from None

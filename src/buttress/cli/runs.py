"""Commands that read recorded runs: diagnose, compare, replay, prompts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from buttress.cli.options import JUDGING, OUTPUT, READING, Reading, names, standard_output
from buttress.errors import ButtressError

if TYPE_CHECKING:
    from buttress.report import Diagnosis
    from buttress.report.runs import Runs

FailOn = Literal["never", "warning", "error"]
_LIMITS = {"warning": 2, "error": 3, "never": 4}  # severities from which the exit code is 1


def diagnose(
    *paths: str,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
    as_one: Annotated[bool, Parameter(negative="", group=READING)] = False,
    select: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    ignore: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    fail_on: Annotated[FailOn, Parameter(group=JUDGING)] = "error",
) -> int:
    """Say what is wrong with a run, why, and what to do; of several runs, for each.

    Exit code: 0 done; 1 a finding at or above --fail-on; 2 bad usage or nothing readable.

    Parameters
    ----------
    paths
        Files, directories or globs: the rollouts and metrics that a trainer writes, the files of
        W&B (offline), TensorBoard, MLflow and Trackio, or any JSONL, CSV or Parquet with one
        rollout per row; also .gz and .zst.
    json
        Print the report as JSON on standard output, and nothing else there.
    html
        Write the report as one self-contained HTML file.
    as_one
        Read all files as one run, also where they look like several.
    select
        Only these rules (names, codes or the first part of a code, such as BT1; comma-separated).
    ignore
        Not these rules (names, codes or the first part of a code, such as BT1; comma-separated).
    fail_on
        The severity from which the exit code is 1.
    """
    from buttress.report import diagnose as diagnose_run
    from buttress.report.runs import NamedCase, Runs

    if not paths:
        raise ButtressError("diagnose needs a file, directory or glob: buttress diagnose PATH")
    if as_one:
        cases = [NamedCase(paths[0], how.case(list(paths), quiet=json))]
    else:
        cases = how.cases(list(paths), quiet=json)
    if len(cases) > 1:
        found = Runs.of(cases, select=names(select), ignore=names(ignore))
        return _deliver_runs(found, json=json, html=html, fail_on=fail_on)
    case = cases[0].case
    diagnosis = diagnose_run(
        case.run, tolerance=case.tolerance, select=names(select), ignore=names(ignore)
    )
    return _deliver(diagnosis, json=json, html=html, fail_on=fail_on)


def compare(
    first: str,
    second: str,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
) -> int:
    """Compare two runs or two sets of runs, with intervals.

    Two runs pair by their common steps. Sets of runs pair by seed, where file or directory names
    (seed0, s1) or a configuration tell it; otherwise they are compared as they are.

    Parameters
    ----------
    first
        A file, directory or glob, or several with commas between them. A directory or glob that
        holds several runs is a set.
    second
        The same, for the run or set that the first is held against.
    json
        Print the comparison as JSON on standard output, and nothing else there.
    html
        Write the comparison as one self-contained HTML file.
    """
    from buttress.report.comparison import Comparison, RunSet
    from buttress.report.hostile import safe_text
    from buttress.report.html import write_sheet
    from buttress.report.runs import Runs

    sides = []
    for given in (first, second):
        runs = Runs.of(how.cases(_listed(given), quiet=json))
        named = (
            [one._replace(name=given) for one in runs.each] if len(runs.each) == 1 else runs.each
        )
        sides.append(RunSet(given, tuple(named)))
    comparison = Comparison(*sides)
    written = None if html is None else write_sheet(comparison.sheet(), html)
    if json:
        sys.stdout.write(comparison.to_json() + "\n")
        return 0
    console = standard_output()
    comparison.render(console)
    if written:
        console.print(f"report: {safe_text(written)}", markup=False, highlight=False)
    return 0


def replay(
    path: str,
    /,
    *,
    remedy: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
) -> int:
    """Recompute the recorded groups under each remedy, without a GPU.

    What ways of sampling would have cost in rollouts is estimated, and it is said how.

    Parameters
    ----------
    path
        A file, directory or glob.
    remedy
        Names from `buttress remedies`, comma-separated, or all (the default).
    json
        Print the outcomes as JSON on standard output, and nothing else there.
    html
        Write the outcomes as one self-contained HTML file.
    """
    from buttress.remedies.replay import replay as replay_groups
    from buttress.report import replay_panel, replayed
    from buttress.report.hostile import safe_text

    case = how.case(path, quiet=json)
    if case.undefined:
        raise ButtressError(f"nothing to replay: {case.undefined}")
    chosen = names(remedy)
    outcomes = replay_groups(
        case.groups, None if chosen in ([], ["all"]) else chosen, tolerance=case.tolerance
    )
    written = None if html is None else replay_panel.write(outcomes, case, html)
    if json:
        sys.stdout.write(replayed.as_json(outcomes) + "\n")
        return 0
    console = standard_output()
    replayed.render(outcomes, console)
    if written:
        console.print(
            f"report: {safe_text(written)}", markup=False, highlight=False, soft_wrap=True
        )
    return 0


def prompts(
    path: str,
    /,
    *,
    out: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    how: Reading = Reading(),
) -> int:
    """Show one row per prompt: tries, successes, interval, state, advice.

    Parameters
    ----------
    path
        A file, directory or glob.
    out
        Write all rows to this file: .csv, .jsonl or .parquet.
    json
        Print the rows as JSON on standard output, and nothing else there.
    """
    from pathlib import Path

    from buttress.report import prompt_rows

    rows = prompt_rows.prompt_rows(how.case(path, quiet=json))
    if out:
        prompt_rows.write(rows, Path(out))
    if json:
        sys.stdout.write(prompt_rows.as_json(rows) + "\n")
    else:
        prompt_rows.render(rows, standard_output())
    return 0


def _deliver(diagnosis: Diagnosis, *, json: bool, html: str | None, fail_on: FailOn) -> int:
    from buttress.report import terminal
    from buttress.report.hostile import safe_text

    written = None if html is None else diagnosis.to_html(html)
    if json:
        sys.stdout.write(diagnosis.to_json() + "\n")
    else:
        console = standard_output()
        terminal.render(diagnosis, console)
        if written:
            console.print(f"report: {safe_text(written)}", markup=False, highlight=False)
    return exit_code(diagnosis, fail_on)


def exit_code(diagnosis: Diagnosis, fail_on: FailOn) -> int:
    """Return 1 where a finding is at or above a severity, else 0."""
    worst = max((int(finding.severity) for finding in diagnosis.findings), default=0)
    return 1 if worst >= _LIMITS[fail_on] else 0


def _deliver_runs(runs: Runs, *, json: bool, html: str | None, fail_on: FailOn) -> int:
    from buttress.report import runs as several
    from buttress.report.hostile import safe_text

    written = None if html is None else several.write_html(runs, html)
    if json:
        sys.stdout.write(runs.to_json() + "\n")
    else:
        console = standard_output()
        several.render(runs, console)
        if written:
            console.print(f"report: {safe_text(written)}", markup=False, highlight=False)
    return 1 if runs.severity >= _LIMITS[fail_on] else 0


def _listed(given: str) -> list[str]:
    """Return the paths of one side: a comma may also be part of a name that exists."""
    from pathlib import Path

    if Path(given).exists() or "," not in given:
        return [given]
    return [one.strip() for one in given.split(",") if one.strip()]

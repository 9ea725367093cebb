"""The command line: parses, calls, prints. What it prints is decided in `report`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from buttress import __version__
from buttress.cli_lab import lab
from buttress.cli_options import JUDGING, OUTPUT, Reading, names
from buttress.errors import ButtressError

if TYPE_CHECKING:
    from rich.console import Console

    from buttress.report import Diagnosis

DONE, FOUND, UNUSABLE = 0, 1, 2

app = App(
    name="buttress",
    help="Is a group-relative RL run learning from what it samples, and if not, why?",
    version=__version__,
    result_action="return_value",
)
app.register_install_completion_command(help="Install shell completion for bash, zsh or fish.")

FailOn = Literal["never", "warning", "error"]
_LIMITS = {"warning": 2, "error": 3, "never": 4}  # severities from which the exit code is 1


@app.command
def diagnose(
    *paths: str,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
    select: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    ignore: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    fail_on: Annotated[FailOn, Parameter(group=JUDGING)] = "error",
) -> int:
    """Say what is wrong with a run, why, and what to do.

    Exit code: 0 done; 1 a finding at or above --fail-on; 2 bad usage or nothing readable.

    Parameters
    ----------
    paths
        Files, directories or globs: TRL completions, verl dumps, trainer_state.json, or any
        JSONL, CSV or Parquet with one rollout per row; also .gz and .zst.
    json
        Print the report as JSON on standard output, and nothing else there.
    html
        Write the report as one self-contained HTML file.
    select
        Only these rules (names, codes or prefixes; comma-separated).
    ignore
        Not these rules (names, codes or prefixes; comma-separated).
    fail_on
        The severity from which the exit code is 1.
    """
    from buttress.report import diagnose as diagnose_run

    if not paths:
        raise ButtressError("diagnose needs a file, directory or glob: buttress diagnose PATH")
    case = how.case(list(paths), quiet=json)
    diagnosis = diagnose_run(
        case.run, tolerance=case.tolerance, select=names(select), ignore=names(ignore)
    )
    return _deliver(diagnosis, json=json, html=html, fail_on=fail_on)


@app.command
def compare(
    first: str,
    second: str,
    /,
    *,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    how: Reading = Reading(),
) -> int:
    """Compare two runs, with intervals, and a paired test where their steps pair.

    Parameters
    ----------
    first, second
        A file, directory or glob each.
    json
        Print the comparison as JSON on standard output, and nothing else there.
    """
    from buttress.report import diagnose as diagnose_run
    from buttress.report.comparison import Comparison

    cases = [how.case(path, quiet=json) for path in (first, second)]
    diagnoses = [diagnose_run(case.run, tolerance=case.tolerance) for case in cases]
    comparison = Comparison(diagnoses[0], diagnoses[1], names=(first, second))
    if json:
        sys.stdout.write(comparison.to_json() + "\n")
    else:
        comparison.render(_stdout())
    return DONE


@app.command
def replay(
    path: str,
    /,
    *,
    remedy: Annotated[list[str] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    how: Reading = Reading(),
) -> int:
    """Recompute the recorded groups under each remedy, without a GPU.

    Parameters
    ----------
    path
        A file, directory or glob.
    remedy
        Names from `buttress remedies`, comma-separated, or all (the default).
    json
        Print the outcomes as JSON on standard output, and nothing else there.
    """
    from buttress.remedies.replay import replay as replay_groups
    from buttress.report import replayed

    case = how.case(path, quiet=json)
    if case.undefined:
        raise ButtressError(f"nothing to replay: {case.undefined}")
    chosen = names(remedy)
    outcomes = replay_groups(
        case.groups, None if chosen in ([], ["all"]) else chosen, tolerance=case.tolerance
    )
    if json:
        sys.stdout.write(replayed.as_json(outcomes) + "\n")
    else:
        replayed.render(outcomes, _stdout())
    return DONE


@app.command
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
        prompt_rows.render(rows, _stdout())
    return DONE


@app.command
def explain(rule: str | None = None, /) -> int:
    """Show the page of a rule; without a name, the list.

    Parameters
    ----------
    rule
        Name or code, e.g. advantage-collapse or BT101.
    """
    from buttress.report import pages

    pages.explain(rule, _stdout())
    return DONE


@app.command
def remedies(
    name: str | None = None, /, *, json: Annotated[bool, Parameter(negative="")] = False
) -> int:
    """Show the catalogue of remedies: paper, formula, cost, where each plugs in.

    Parameters
    ----------
    name
        One remedy, e.g. avspo; without a name, the list.
    json
        Print a list of objects with name, paper, kind and options.
    """
    from buttress.report import pages

    pages.remedies(name, _stdout(), as_json=json)
    return DONE


@app.command
def demo(
    *,
    out: str = "buttress-demo",
    steps: int | None = None,
    seed: int = 0,
    html: str | None = None,
) -> int:
    """Train a tiny language model with GRPO and with AVSPO, diagnose both, write a report.

    Needs the extra `trl`; takes one to three minutes on two cores; downloads nothing.

    Parameters
    ----------
    out
        Directory for the two runs and their reports.
    steps
        Training steps of each run; by default as many as the task needs.
    seed
        Seed of data order and sampling, the same for both runs.
    html
        Write the HTML report here instead of into the directory.
    """
    from buttress.lab.show import show_demo

    show_demo(out, steps=steps, seed=seed, html=html, console=_stdout())
    return DONE


app.command(lab)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _ready_stdout()
    try:
        code = app(arguments, exit_on_error=False, print_error=True)
        sys.stdout.flush()
    except CycloptsError:
        code = UNUSABLE
    except ButtressError as fault:
        from buttress.report.hostile import safe_text

        print(f"buttress: {safe_text(str(fault))}", file=sys.stderr)  # noqa: T201
        code = UNUSABLE
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # the reader of our output went away (head, a closed pager)
        _silence_stdout()
        code = DONE
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        sys.stderr.write(f"buttress: {ascii(where)[1:-1]}{fault.strerror or fault}\n")
        _silence_stdout()
        code = UNUSABLE
    sys.exit(code if isinstance(code, int) else DONE)


def _ready_stdout() -> None:
    """Let every text be written, whatever the encoding, and nowhere where the stream is closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if not encoding.lower().startswith("utf") and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Keep the interpreter from flushing into a broken stream at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _deliver(diagnosis: Diagnosis, *, json: bool, html: str | None, fail_on: FailOn) -> int:
    from buttress.report import terminal
    from buttress.report.hostile import safe_text

    written = None if html is None else diagnosis.to_html(html)
    if json:
        sys.stdout.write(diagnosis.to_json() + "\n")
    else:
        console = _stdout()
        terminal.render(diagnosis, console)
        if written:
            console.print(f"report: {safe_text(written)}", markup=False, highlight=False)
    worst = max((int(finding.severity) for finding in diagnosis.findings), default=0)
    return FOUND if worst >= _LIMITS[fail_on] else DONE


def _stdout() -> Console:
    from rich.console import Console

    return Console()

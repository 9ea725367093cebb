"""`buttress watch`: follow a run as it writes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from buttress.cli.options import JUDGING, OUTPUT, Reading, names
from buttress.cli.runs import FailOn, exit_code
from buttress.errors import InputError, UsageError

FOLLOWING = Group("Following", sort_key=0)


def watch(
    path: str,
    /,
    *,
    stop_file: Annotated[str | None, Parameter(group=FOLLOWING)] = None,
    until_idle: Annotated[float | None, Parameter(group=FOLLOWING)] = None,
    interval: Annotated[float, Parameter(group=FOLLOWING)] = 5.0,
    hold: Annotated[int, Parameter(group=FOLLOWING)] = 3,
    prometheus: Annotated[int | None, Parameter(group=OUTPUT)] = None,
    json: Annotated[bool, Parameter(negative="", group=OUTPUT)] = False,
    html: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    how: Reading = Reading(),
    select: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    ignore: Annotated[list[str] | None, Parameter(negative="", group=JUDGING)] = None,
    fail_on: Annotated[FailOn, Parameter(group=JUDGING)] = "error",
) -> int:
    """Follow the files of a running job and diagnose it as it writes.

    Ends with Ctrl-C or --until-idle; the exit code is that of the last diagnosis. Files that are
    moved away or deleted stay counted; a job that begins later is waited for.

    Parameters
    ----------
    path
        A file, directory or pattern.
    stop_file
        Create this file, with the reasons, once an error finding has held for --hold looks; the job
        may look for it.
    until_idle
        End when nothing was written for so many seconds.
    interval
        Seconds between two looks; longer where a look takes long.
    hold
        Looks with news in a row that must show an error before the stop file is made.
    prometheus
        Serve the numbers to Prometheus on this port of 127.0.0.1; 0 takes a free one.
    json
        Print the last report as JSON on standard output, and nothing else there.
    html
        Write the report here after every look with news.
    select
        Only these rules (names, codes or prefixes; comma-separated).
    ignore
        Not these rules (names, codes or prefixes; comma-separated).
    fail_on
        The severity from which the exit code is 1.
    """
    from rich.console import Console

    from buttress.report import Diagnosis
    from buttress.report import diagnose as diagnose_run
    from buttress.watch import Look, Watcher
    from buttress.watch.screen import Screen
    from buttress.watch.watcher import under_their_names, write_stop

    _check(interval, until_idle, hold)
    chosen, left = names(select), names(ignore)

    def diagnose(files: Mapping[str, str]) -> Diagnosis:
        case = how.case(list(files))
        run = under_their_names(case.run, files)
        return diagnose_run(run, tolerance=case.tolerance, select=chosen, ignore=left)

    def deliver(look: Look) -> None:
        if look.changed and look.diagnosis is not None and html is not None:
            _try(lambda: look.diagnosis and look.diagnosis.to_html(html), html)
        if look.stop and stop_file is not None:
            _try(lambda: write_stop(Path(stop_file), look), stop_file)
        if look.diagnosis is not None and look.changed and gauges is not None:
            gauges.write(_row(look.diagnosis))

    gauges = _gauges(prometheus)
    console = Console(stderr=json)
    watcher = Watcher(path, diagnose, hold=hold)
    look = Look(None, changed=False, idle=0.0)
    with Screen(path, console) as screen, suppress(KeyboardInterrupt):
        while until_idle is None or look.idle < until_idle:
            look = watcher.look()
            screen.show(look)
            deliver(look)
            time.sleep(watcher.pause(interval if until_idle is None else min(interval, until_idle)))
    watcher.close()
    if gauges is not None:
        gauges.close()
    if look.diagnosis is None:
        raise InputError(f"{path}: nothing could be read while it was watched")
    if json:
        sys.stdout.write(look.diagnosis.to_json() + "\n")
    return exit_code(look.diagnosis, fail_on)


def _check(interval: float, until_idle: float | None, hold: int) -> None:
    if not interval > 0:
        raise UsageError(f"--interval must be above 0 seconds; got {interval}")
    if until_idle is not None and not until_idle > 0:
        raise UsageError(f"--until-idle must be above 0 seconds; got {until_idle}")
    if hold < 1:
        raise UsageError(f"--hold must be 1 or more; got {hold}")


_SAID: set[str] = set()


def _try(action: Any, what: str) -> None:
    """Do something whose failure must not end the watch; say once what failed."""
    try:
        action()
    except (OSError, InputError, UsageError) as fault:
        if what not in _SAID:
            _SAID.add(what)
            sys.stderr.write(f"buttress: {ascii(what)[1:-1]} could not be written: {fault}\n")


def _gauges(port: int | None) -> Any:
    if port is None:
        return None
    from buttress.hooks.sinks import Prometheus

    served = Prometheus(port=port)
    sys.stderr.write(f"buttress: metrics on http://127.0.0.1:{served.port}/metrics\n")
    return served


def _row(diagnosis: Any) -> Any:
    from buttress.hooks.outbox import Row

    found = diagnosis.as_dict()
    measures = found["measures"]
    numbers = {
        "buttress/acr": measures["acr"],
        "buttress/effective_batch": measures["effective_batch"],
    }
    numbers |= {f"buttress/groups/{name}": count for name, count in measures["groups"].items()}
    known = {name: float("nan") if one is None else float(one) for name, one in numbers.items()}
    return Row(found["steps"][-1]["step"] if found["steps"] else 0, known)

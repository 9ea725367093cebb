"""`buttress watch`: follow a run as it writes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from buttress.cli.options import JUDGING, OUTPUT, Reading, names, standard_output
from buttress.cli.runs import FailOn, exit_code
from buttress.errors import InputError, UsageError

if TYPE_CHECKING:
    from buttress.hooks.sinks import Prometheus
    from buttress.report import Diagnosis
    from buttress.watch import Watcher
    from buttress.watch.outputs import Outputs
    from buttress.watch.screen import Screen

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

    from buttress.report import diagnose as diagnose_run
    from buttress.watch import Watcher
    from buttress.watch.outputs import Outputs
    from buttress.watch.screen import Screen
    from buttress.watch.watcher import under_their_names

    _check(interval, until_idle, hold)
    chosen, left = names(select), names(ignore)

    def diagnose(files: Mapping[str, str]) -> Diagnosis:
        case = how.case(list(files))
        run = under_their_names(case.run, files)
        return diagnose_run(run, tolerance=case.tolerance, select=chosen, ignore=left)

    outputs = Outputs(path, how.options, html, stop_file, _gauges(prometheus))
    own = [one for one in (html, stop_file) if one is not None]
    watcher = Watcher(path, diagnose, hold=hold, options=how.options, own=own)
    outputs.warn(watcher.unheld)
    try:
        with Screen(path, Console(stderr=json)) as screen, _ended_by_signals():
            _follow(watcher, screen, outputs, interval, until_idle)
        look = watcher.finish()
        outputs.deliver(look)
    finally:
        watcher.close()
        outputs.close()
    if look.diagnosis is None:
        raise InputError(f"{path}: nothing could be read while it was watched: {watcher.fault}")
    return _last_words(look.diagnosis, json=json, fail_on=fail_on)


def _check(interval: float, until_idle: float | None, hold: int) -> None:
    if not interval > 0:
        raise UsageError(f"--interval must be above 0 seconds; got {interval}")
    if until_idle is not None and not until_idle > 0:
        raise UsageError(f"--until-idle must be above 0 seconds; got {until_idle}")
    if hold < 1:
        raise UsageError(f"--hold must be 1 or more; got {hold}")


def _follow(
    watcher: Watcher,
    screen: Screen,
    outputs: Outputs,
    interval: float,
    until_idle: float | None,
) -> None:
    """Look until the job is quiet for long enough, or the user has seen enough."""
    from buttress.watch.outputs import no_room

    every = interval if until_idle is None else min(interval, until_idle)
    idle = 0.0
    with suppress(KeyboardInterrupt):
        while until_idle is None or idle < until_idle:
            begin = time.monotonic()
            look = watcher.look()
            with no_room():
                screen.show(look)
            if look.changed:
                outputs.deliver(look)
            idle = look.idle
            watcher.cost = time.monotonic() - begin
            time.sleep(watcher.pause(every))


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let a request to terminate end the watch as Ctrl-C does: with a last report."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _last_words(diagnosis: Diagnosis, *, json: bool, fail_on: FailOn) -> int:
    from buttress.report import terminal

    if json:
        sys.stdout.write(diagnosis.to_json() + "\n")
    else:
        terminal.render(diagnosis, standard_output())
    return exit_code(diagnosis, fail_on)


def _gauges(port: int | None) -> Prometheus | None:
    if port is None:
        return None
    from buttress.hooks.sinks import Prometheus

    served = Prometheus(port=port)
    sys.stderr.write(f"buttress: metrics on http://127.0.0.1:{served.port}/metrics\n")
    return served

"""The arms of the demo side by side: start them, hear them, and never leave one behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import msgspec

from buttress.errors import ButtressError
from buttress.lab.arm import Report, Setting, environment

LAST_LINES = 12
GRACE = 5.0  # seconds between asking a process to end and ending it

Heard = Callable[[str, Report], None]


def run_side_by_side(settings: Sequence[Setting], heard: Heard) -> None:
    """Run one process per setting; `heard(remedy, report)` gets each line that they report.

    Returns when all are done. Raises `ButtressError` with the last lines of the log of the first
    that fails. Whatever happens, Ctrl-C included, no process outlives the call.
    """
    inbox: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
    decoder: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)
    processes: list[subprocess.Popen[bytes]] = []
    listeners: list[threading.Thread] = []
    try:
        for number, setting in enumerate(settings):
            processes.append(_start(setting))
            arguments = (number, processes[-1].stdout, inbox)
            listeners.append(threading.Thread(target=_listen, args=arguments, daemon=True))
            listeners[-1].start()
        running = len(settings)
        while running:
            number, line = inbox.get()
            if line:
                heard(settings[number].remedy, decoder.decode(line))
            else:
                running -= 1
                _check(processes[number], settings[number])
    finally:
        _end(processes)
        for listener in listeners:
            listener.join(GRACE)


def log_of(setting: Setting) -> Path:
    """Return where the output of the libraries goes: beside the run, which holds the run alone."""
    directory = Path(setting.directory)
    return directory.with_name(f"{directory.name}.log")


def _command(setting: Setting) -> list[str]:
    # -P: a folder called trl where the user stands must not shadow the package
    return [sys.executable, "-P", "-m", "buttress.lab.arm", msgspec.json.encode(setting).decode()]


def _start(setting: Setting) -> subprocess.Popen[bytes]:
    path = log_of(setting)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as log:
        return subprocess.Popen(
            _command(setting),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(),
        )


def _listen(number: int, pipe: IO[bytes] | None, inbox: SimpleQueue[tuple[int, bytes]]) -> None:
    """Put every line of a pipe into the inbox, and an empty one at its end."""
    if pipe is not None:
        with pipe:
            for line in pipe:
                inbox.put((number, line))
    inbox.put((number, b""))


def _check(process: subprocess.Popen[bytes], setting: Setting) -> None:
    code = process.wait()
    if code == 0:
        return
    log = log_of(setting)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    raise ButtressError(
        f"the training with {setting.remedy} ended with {how}; the end of {log}:\n"
        + "\n".join(f"  {line}" for line in lines)
    )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""The tools that the yardstick measures: buttress itself, and packages from PyPI beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from buttress.errors import UsageError
from buttress.lab.yardstick import ask_rldoctor, ask_rlprobe, ask_rlvr_audit
from buttress.lab.yardstick.draft import Draft
from buttress.lab.yardstick.scores import Heard

BUTTRESS = "buttress"
ADAPTERS: dict[str, ModuleType] = {
    one.PACKAGE: one for one in (ask_rldoctor, ask_rlvr_audit, ask_rlprobe)
}
NAMES = (BUTTRESS, *ADAPTERS)
_WAIT = 900.0  # seconds for an installation, or for all calls of a tool


@dataclass
class Tool:
    """A package in an environment of its own; `faults` are calls that came to nothing."""

    name: str
    python: Path
    faults: int = 0

    def prepare(self, draft: Draft, folder: Path) -> list[str]:
        """Write what the tool reads of a run and return the arguments of its call."""
        folder.mkdir(parents=True)
        return ADAPTERS[self.name].prepare(draft, folder)

    def hear_all(self, calls: Sequence[list[str]]) -> Iterator[tuple[Heard, ...]]:
        """Make all calls in one process and yield what the tool said to each."""
        adapter = ADAPTERS[self.name]
        lines = "".join(json.dumps(call) + "\n" for call in calls)
        driver = Path(__file__).with_name("driver.py")
        done = subprocess.run(
            [str(self.python), "-I", str(driver), adapter.COMMAND],
            input=lines,
            capture_output=True,
            text=True,
            timeout=_WAIT,
            check=False,
        )
        answers = done.stdout.splitlines()
        for at in range(len(calls)):
            try:
                yield tuple(adapter.hear(json.loads(answers[at])["out"]))
            except (IndexError, KeyError, ValueError):
                self.faults += 1
                yield ()


def check(names: Sequence[str]) -> None:
    """Raise `UsageError` for a name that is no tool."""
    for name in names:
        if name not in NAMES:
            raise UsageError.unknown("tool", name, NAMES)


def find(
    name: str, folder: Path | None, *, install: bool, say: Callable[[str], None]
) -> Tool | None:
    """Return a tool from its environment below a folder, installing it on request; else None."""
    if folder is None:
        say(f"{name}: left out, since --out names no directory for its environment")
        return None
    place = folder / "tools" / name
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        if not install:
            say(f"{name}: left out, not installed; ask for it with --tools")
            return None
        say(f"{name}: installing into {place}")
        if not _installed(name, place, python, say):
            return None
    return Tool(name, python)


def _installed(name: str, place: Path, python: Path, say: Callable[[str], None]) -> bool:
    package = ADAPTERS[name].PACKAGE
    command = [str(python), "-m", "pip", "install", "--quiet", package]
    try:
        venv.create(place, with_pip=True, clear=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT, check=False)
        fault = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except (OSError, subprocess.SubprocessError) as error:
        fault = [str(error)]
    if fault:
        say(f"{name}: left out, it could not be installed: {fault[0]}")
        python.unlink(missing_ok=True)
    return not fault

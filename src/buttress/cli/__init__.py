"""The command line: parses, calls, prints. What it prints is decided in `report`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from cyclopts import App, CycloptsError

from buttress import __version__
from buttress.cli import bench, lab, models, pages, plan, runs, train, watch
from buttress.errors import ButtressError

DONE, UNUSABLE = 0, 2

app = App(
    name="buttress",
    help="Is a group-relative RL run learning from what it samples, and if not, why?",
    version=__version__,
    result_action="return_value",
)
app.register_install_completion_command(help="Install shell completion for bash, zsh or fish.")

for command in (
    runs.diagnose,
    runs.compare,
    runs.replay,
    plan.plan,
    runs.prompts,
    watch.watch,
    pages.explain,
    pages.remedies,
    models.select,
    train.train,
    models.evaluate,
    lab.demo,
    lab.lab,
    bench.bench,
):
    app.command(command)


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

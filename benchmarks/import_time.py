"""What it costs to import buttress, and to ask the command for help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks.timing import Row, medians

MEASURE = (
    "import numpy, buttress as bt; bt.collapse_rate(bt.Groups.from_dense(numpy.zeros((2, 2))))"
)


def rows() -> list[Row]:
    """Start fresh interpreters in turn."""
    took = medians(
        {
            "python": _python("pass"),
            "numpy": _python("import numpy"),
            "buttress": _python("import numpy, buttress"),
            "measure": _python(MEASURE),
            "help": _run([sys.executable, "-m", "buttress", "--help"]),
        },
        repetitions=11,
    )
    over, measure = took["buttress"] - took["numpy"], took["measure"] - took["numpy"]
    return [
        Row(
            "import buttress, over numpy", over, "import numpy", took["numpy"], "100 ms", over < 0.1
        ),
        Row("first measure, over numpy", measure, "import numpy", took["numpy"]),
        Row(
            "buttress --help",
            took["help"],
            "bare python",
            took["python"],
            "400 ms",
            took["help"] < 0.4,
        ),
    ]


def _python(code: str) -> Callable[[], object]:
    return _run([sys.executable, "-c", code])


def _run(command: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

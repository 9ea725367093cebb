"""Call the command line of an installed package again and again, in one process.

Run by the Python of the package's own environment, so it knows the standard library alone. Reads
one JSON list of arguments per line and answers with one JSON object per line.

    PYTHON driver.py COMMAND < calls.jsonl
"""

import contextlib
import io
import json
import sys
from importlib.metadata import entry_points


def main(command):
    (point,) = [one for one in entry_points(group="console_scripts") if one.name == command][:1]
    call = point.load()
    for line in sys.stdin:
        arguments = json.loads(line)
        sys.argv = [command, *arguments]
        out, fault = io.StringIO(), None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                call()
            except SystemExit:
                pass  # the exit code repeats what the output says
            except Exception as error:
                fault = repr(error)
        print(json.dumps({"out": out.getvalue(), "fault": fault}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])

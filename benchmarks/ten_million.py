"""A verl dump of a million rollouts, or of ten, diagnosed: memory, and time against pandas.

    python -m benchmarks ten_million                        1 GB of dump, some minutes
    python -m benchmarks ten_million --rollouts 10000000    10 GB in the folder for temporary files

The dump is that of `read_verl`, texts included, with a prompt of its own for every group. The
yardstick is the script that people write: `pandas.read_json` of each file, then a `groupby` of step
and prompt. It keeps no more columns than it needs and yields the collapse rate alone, which has to
be ours. Buttress reads with as many processes as there are cores, as it does by default unless
others keep them busy. Memory is that of all processes together, looked at twenty times a second.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.read_verl import N_ROLLOUTS, write
from benchmarks.timing import Row
from buttress.logs.workers import MOST

LAYOUT = "legacy"
LIMIT_MB = 2000
FASTER = 8
BYTES_EACH = 1100
REPETITIONS = 3 if N_ROLLOUTS <= 2_000_000 else 1


def rows() -> list[Row]:
    """Measure both on the same dump, in turn."""
    place = tempfile.gettempdir()
    needed, free = N_ROLLOUTS * BYTES_EACH, shutil.disk_usage(place).free
    if needed > 0.8 * free:
        raise SystemExit(f"{place} has {free / 1e9:.0f} GB free; this needs {needed / 1e9:.0f} GB")
    with tempfile.TemporaryDirectory(prefix="buttress-bench-") as folder:
        size = write(Path(folder), LAYOUT)
        os.sync()  # what is written to the disc while others are measured would slow the first
        runs: dict[str, list[Measured]] = {"diagnose": [], "pandas": []}
        for _ in range(REPETITIONS):
            for kind, some in runs.items():
                some.append(measured(kind, folder))
    rates = {rate for some in runs.values() for _, _, rate in some}
    assert len(rates) == 1, f"the two disagree on the collapse rate: {rates}"
    took = {kind: median(seconds for seconds, _, _ in some) for kind, some in runs.items()}
    peak = {kind: max(memory for _, memory, _ in some) for kind, some in runs.items()}
    what = f"{N_ROLLOUTS:,} rollouts, {size / 1e9:.1f} GB"
    return [
        Row(
            f"{what}, diagnosed, peak {peak['diagnose']:.0f} MB",
            took["diagnose"],
            f"pandas, peak {peak['pandas']:.0f} MB",
            took["pandas"],
            f"1/{FASTER} x in {LIMIT_MB} MB",
            took["pandas"] >= FASTER * took["diagnose"] and peak["diagnose"] < LIMIT_MB,
        )
    ]


Measured = tuple[float, float, float]  # seconds, peak megabytes, collapse rate


def measured(kind: str, folder: str) -> Measured:
    """Run one pass in a process of its own and watch its memory."""
    command = [sys.executable, "-m", "benchmarks.ten_million", kind, folder]
    workers = {"BUTTRESS_WORKERS": str(min(os.cpu_count() or 1, MOST))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=workers | os.environ) as process:
        assert process.stdout is not None
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.05)
        if process.returncode:
            raise SystemExit(f"{kind} ended with code {process.returncode}")
        seconds, rate = json.loads(process.stdout.read())
    return seconds, peak, rate


def resident(pid: int) -> float:
    """Return the resident megabytes of a process and its children; shared pages count in each."""
    total = 0.0
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        total = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(resident, map(int, (task / "children").read_text().split())))
    except OSError:  # it has just ended
        pass
    return total


def with_pandas(folder: str) -> float:
    """Return the collapse rate as a straightforward script finds it."""
    import pandas as pd

    frames = []
    for path in Path(folder).glob("*.jsonl"):
        frame = pd.read_json(path, lines=True)
        frames.append(frame[["step", "input", "score"]])
    table = pd.concat(frames)
    groups = table.groupby(["step", "input"])["score"].agg(["min", "max", "size"])
    groups = groups[groups["size"] > 1]
    return float((groups["max"] - groups["min"] <= 1e-6).mean())


def with_buttress(folder: str) -> float:
    """Return the collapse rate of the whole diagnosis, with every rule and the JSON report."""
    import buttress as bt

    return float(json.loads(bt.diagnose(bt.read(folder)).to_json())["measures"]["acr"])


def main(kind: str, folder: str) -> None:
    """Print seconds and collapse rate of one pass."""
    call = {"diagnose": with_buttress, "pandas": with_pandas}[kind]
    start = time.perf_counter()
    rate = call(folder)
    print(json.dumps([time.perf_counter() - start, round(rate, 12)]))


if __name__ == "__main__":
    main(*sys.argv[1:])

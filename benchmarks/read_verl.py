"""A verl dump of a million rollouts (1 GB) into a `Run`, against a bare msgspec pass over it.

The yardstick loops over the lines and decodes the same columns, texts included, into a typed
Struct, and keeps nothing. Each measurement is a process of its own, so that memory can be told;
the time is that of the reading alone. ``BENCH_ROLLOUTS=100000`` makes a smaller dump.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.timing import Row

N_ROLLOUTS = int(os.environ.get("BENCH_ROLLOUTS", "1000000"))
GROUP, FILES, REPETITIONS = 8, 125, 3
WORDS = [
    *("so", "we", "have", "the", "number", "of", "ways", "to", "let", "x", "=", "y", "+", "3"),
    *("then", "\\frac{1}{2}", "of", "12", "is", "therefore", "compute", "\\sqrt{x^2}", "thus"),
    *('"check"', "now\n\n", "since", "modulo", "7", "remainder", "sum", "→", "≤", "answer"),
]


class Legacy(msgspec.Struct):
    """The columns that buttress reads of the older layout."""

    input: str
    output: str
    score: float
    step: int
    acc: bool


class V1(msgspec.Struct):
    """The columns that buttress reads of the V1 layout."""

    input: str
    output: str
    score: float
    step: int
    uid: str


LAYOUTS = {"legacy": Legacy, "v1": V1}


def rows() -> list[Row]:
    """Measure both layouts, in one process and in as many as buttress chooses."""
    found = []
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory(prefix="buttress-bench-") as folder:
            size = write(Path(folder), layout)
            found += _rows(folder, layout, size)
    return found


def _rows(folder: str, layout: str, size: int) -> list[Row]:
    kinds = {"bare": {}, "read": {"BUTTRESS_WORKERS": "1"}, "diagnose": {}}
    runs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(REPETITIONS):
        for kind, more in kinds.items():
            runs[kind].append(_measured(kind, folder, layout, more))
    took = {kind: median(seconds for seconds, _ in some) for kind, some in runs.items()}
    peak = {kind: max(memory for _, memory in some) for kind, some in runs.items()}
    return [
        Row(
            f"{layout}, {size / 1e9:.2f} GB, {name}, peak {peak[kind]:.0f} MB",
            took[kind],
            "bare msgspec pass",
            took["bare"],
            "1.5 x in 1000 MB",
            took[kind] <= 1.5 * took["bare"] and peak[kind] < 1000,
        )
        for kind, name in (
            ("read", "read by one process"),
            ("diagnose", "diagnosed as by default (two workers on two cores)"),
        )
    ]


def _measured(kind: str, folder: str, layout: str, more: dict[str, str]) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.read_verl", kind, folder, layout]
    done = subprocess.run(command, env=os.environ | more, check=True, stdout=subprocess.PIPE)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def write(folder: Path, layout: str) -> int:
    """Write the dump and return its size in bytes."""
    rng = random.Random(0)
    pool = [json.dumps(" ".join(rng.choices(WORDS, k=130)), ensure_ascii=False) for _ in range(997)]
    size = 0
    for step in range(1, FILES + 1):
        path = folder / f"{step}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for _ in range(N_ROLLOUTS // FILES // GROUP):
                file.writelines(_group(rng, pool, step, layout))
        size += path.stat().st_size
    return size


def _group(rng: random.Random, pool: list[str], step: int, layout: str) -> list[str]:
    prompt = f'"user\\nProblem {rng.getrandbits(40)}: {rng.choice(pool)[1:200]}'.rstrip("\\")
    uid, lines = f"{rng.getrandbits(128):032x}", []
    for sample in range(GROUP):
        right = rng.random() < 0.4
        extra = f'"uid": "{uid}_{sample}_0"'
        if layout == "legacy":
            extra = f'"acc": {str(right).lower()}, "pred": "41", "request_id": "{rng.random()}"'
        output = f'"{rng.random()} {rng.choice(pool)[1:]}'
        lines.append(
            f'{{"input": {prompt}\\nassistant\\n", "output": {output}, "gts": "42", '
            f'"score": {float(right)}, "step": {step}, {extra}}}\n'
        )
    return lines


def bare(folder: str, layout: str) -> int:
    """Decode every line and keep nothing; return the number of rows."""
    decode, count = msgspec.json.Decoder(LAYOUTS[layout]).decode, 0
    for path in sorted(Path(folder).iterdir()):
        with path.open("rb") as file:
            for line in file:
                decode(line)
                count += 1
    return count


def read(folder: str, layout: str) -> int:
    """Read the dump into a run; return the number of rollouts."""
    from buttress.logs import read as read_run

    return read_run(folder).groups.n_samples


def diagnosed(folder: str, layout: str) -> int:
    """Read and diagnose, to the JSON report; return the number of rollouts."""
    import buttress as bt

    return int(json.loads(bt.diagnose(bt.read(folder)).to_json())["source"]["rollouts"])


def main(kind: str, folder: str, layout: str) -> None:
    """Print seconds and peak megabytes of one pass, those of helping processes included."""
    calls: dict[str, Callable[[str, str], int]] = {
        "bare": bare,
        "read": read,
        "diagnose": diagnosed,
    }
    call = calls[kind]
    start = time.perf_counter()
    count = call(folder, layout)
    seconds = time.perf_counter() - start
    assert count == N_ROLLOUTS // FILES // GROUP * GROUP * FILES, count
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps([seconds, (own + largest) / 1024]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Print the speed of buttress as ratios.

    python -m benchmarks                            all of them
    python -m benchmarks NAME ... [--rollouts N]    some; with dumps of N rollouts

A benchmark is a module of this package with a function ``rows()`` that returns `timing.Row`s; a new
file is found by itself. Every time stands beside a yardstick that was measured in the same run, in
turn, on one thread: on another machine look at the ratio.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys

# before NumPy or Polars are loaded
for _name in ("OMP", "OPENBLAS", "MKL", "POLARS_MAX", "RAYON"):
    os.environ[f"{_name}_{'THREADS' if _name == 'POLARS_MAX' else 'NUM_THREADS'}"] = "1"

from benchmarks.timing import Row  # noqa: E402

HELPERS = {"__main__", "timing"}


def names() -> list[str]:
    """Return the benchmarks that there are."""
    path = importlib.import_module("benchmarks").__path__
    return [one.name for one in pkgutil.iter_modules(path) if one.name not in HELPERS]


def show(name: str, rows: list[Row]) -> None:
    """Print the table of one benchmark."""
    print(f"\n{name}")
    width = max(len(row.what) for row in rows)
    for row in rows:
        target = f"   {row.target}: {'met' if row.met else 'MISSED'}" if row.target else ""
        print(
            f"  {row.what:{width}}  {_spoken(row.seconds)}  {row.ratio:8.2f} x "
            f"{row.yardstick} ({_spoken(row.yardstick_seconds).strip()}){target}"
        )


def main(wanted: list[str]) -> int:
    """Run benchmarks by name, all by default."""
    known, wanted = names(), list(wanted)
    if "--rollouts" in wanted:
        at = wanted.index("--rollouts")
        count = wanted[at + 1] if len(wanted) > at + 1 else ""
        if not count.isdecimal():
            print("--rollouts needs a number, such as 10000000", file=sys.stderr)
            return 2
        os.environ["BENCH_ROLLOUTS"] = count
        del wanted[at : at + 2]
    if {"-h", "--help"} & set(wanted):
        print(f"{__doc__}\nBenchmarks: {', '.join(known)}")
        return 0
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        print(f"busy machine (load {load:.1f} on {cores} cores): trust the ratios, not the times")
    for name in wanted or known:
        show(name, list(importlib.import_module(f"benchmarks.{name}").rows()))
    return 0


def _spoken(seconds: float) -> str:
    return f"{seconds:7.2f} s " if seconds >= 1 else f"{seconds * 1e3:7.2f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

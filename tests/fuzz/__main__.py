"""Coverage-guided fuzzing of every reader: no traceback, no hang, no memory that runs away.

    pip install atheris
    python -m tests.fuzz --seconds 600

Begins from the fixtures of tests/logs/data. What brings a reader down is left as ``crash-...`` (or
``timeout-...``, ``oom-...``) in the corpus folder; make it a plain test before it is fixed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import atheris

DATA = Path(__file__).parents[1] / "logs" / "data"
LARGEST = 64 << 10  # bytes of a seed, and of an input
SECONDS_EACH, MEGABYTES = 20, 2000

with atheris.instrument_imports(include=["buttress.logs", "buttress.groups"]):
    import buttress.logs.reader as registry
    from tests.logs.test_fuzz import read_bytes

    SUFFIXES = sorted({suffix for one in registry.readers() for suffix in one.suffixes})


def read_one(data: bytes) -> None:
    """Read a file: its first byte chooses the suffix, the rest are its contents."""
    if data:
        read_bytes(data[1:], SUFFIXES[data[0] % len(SUFFIXES)])


def seed(folder: Path) -> int:
    """Write the fixtures as first inputs; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [path for path in DATA.rglob("*") if path.is_file() and path.stat().st_size < LARGEST]
    for number, path in enumerate(found):
        choice = SUFFIXES.index(path.suffix) if path.suffix in SUFFIXES else 0
        (folder / f"seed-{number}").write_bytes(bytes([choice]) + path.read_bytes())
    return len(found)


def main() -> None:
    """Fuzz for a while."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    sys.stderr.write(f"{seed(options.corpus)} seeds, suffixes {' '.join(SUFFIXES)}\n")
    flags = [
        f"-max_total_time={options.seconds}",
        f"-max_len={LARGEST}",
        f"-timeout={SECONDS_EACH}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={options.corpus}/",
    ]
    atheris.Setup([sys.argv[0], *flags, str(options.corpus)], read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

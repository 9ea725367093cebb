"""Problems that the tiny model solves about every third time: digits in descending order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from buttress.lab.tasks import LatentSkill

# what every command on these problems says
SAMPLING = {"--model": "latent-skill", "--verifier": "exact", "--max-tokens": "8"}


def rows(count: int) -> list[dict[str, Any]]:
    """Return problems of the held-out split, with the descending digits as answers."""
    problems = LatentSkill().problems(count, split="held_out", seed=1)
    return [
        {"problem": one.prompt, "answer": one.answer[::-1], "number": at}
        for at, one in enumerate(problems)
    ]


def write(path: Path, count: int) -> str:
    """Write problems to a file, and return its path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(count)))
    return str(path)


def options(usual: dict[str, str], *more: object) -> list[str]:
    """Return options of the command line; what is said in `more` overrules the usual ones."""
    given = [str(one) for one in more]
    usual = {name: value for name, value in (SAMPLING | usual).items() if name not in given}
    return [part for pair in usual.items() for part in pair] + given


def environment(**more: str) -> dict[str, str]:
    """Return what a process of these tests is started with."""
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    kept = {name: value for name, value in os.environ.items() if name not in ranks}
    return kept | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | more


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    env = environment(**more.pop("env", {}))
    command = [sys.executable, "-m", *more.pop("launcher", ()), "buttress", *arguments]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def run(*arguments: str, **more: Any) -> tuple[int, str, str]:
    """Run the command line; returns exit code, standard output and standard error."""
    process = start(*arguments, **more)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err

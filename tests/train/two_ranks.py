"""Run by torchrun on two ranks: the command line trains with each remedy, one after the other."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from buttress.cli.train import train

REMEDIES = ("grpo", "avspo", "posterior")
FAIL_AT = "4"


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    config = str(folder / "run.toml")
    for remedy in REMEDIES:
        train(config, remedy=remedy, out=str(folder / remedy), json=True)
    # stopped amid the run by a fault on both ranks, and gone on with
    rewards = [f"{folder / 'rewards.py'}:failing"]
    out = str(folder / "resumed")
    os.environ["FAIL_AT"] = FAIL_AT
    try:
        train(config, remedy="avspo", reward=rewards, out=out)
    except Exception as fault:
        print(f"rank {os.environ['RANK']} {type(fault).__name__}: {fault}", file=sys.stderr)  # noqa: T201
    os.environ.pop("FAIL_AT")
    train(config, remedy="avspo", reward=rewards, out=out, resume=True, json=True)
    sampling = "dynamic_sampling"
    rare = [f"{folder / 'rewards.py'}:rare"]
    train(config, remedy="grpo", sampling=sampling, reward=rare, out=str(folder / "dynamic"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

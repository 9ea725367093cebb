"""`buttress demo`: a small model trained with GRPO, AVSPO and posterior, for real, on the CPU."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from buttress import __version__
from buttress.errors import MissingExtraError, UsageError
from buttress.lab.arm import GROUP_SIZE, HELD_OUT_PROBLEMS, N_PROMPTS, Done, Ready, Report, Setting
from buttress.lab.processes import run_side_by_side
from buttress.lab.progress import DemoProgress

REMEDIES = ("grpo", "avspo", "posterior")
STEPS = 300
LEARNING_RATE = 1e-4
SUMMARY = "summary.json"
MARK = ".buttress-demo"  # only a directory with this file is ever replaced


@dataclass(frozen=True)
class DemoRun:
    """One of the runs.

    Attributes
    ----------
    remedy
        Its name.
    directory
        Holds ``completions/*.parquet``, ``trainer_state.json``; the log lies beside it.
    greedy_before, greedy_after
        Share of the held-out problems that the most likely answer solves.
    seconds
        Training time.
    """

    remedy: str
    directory: Path
    greedy_before: float
    greedy_after: float
    seconds: float


@dataclass(frozen=True)
class Demo:
    """What `run_demo` did: runs from the same weights, problems and seed, equal rollouts.

    `seconds` is the time of everything, loading the libraries included.
    """

    runs: tuple[DemoRun, ...]
    steps: int
    seed: int
    rollouts: int  # of each run
    held_out: int  # problems behind the greedy accuracies
    learning_rate: float
    seconds: float

    def sentence(self) -> str:
        """Return what happened, whichever run did better."""
        told = "; ".join(
            f"{run.remedy} from {run.greedy_before:.1%} to {run.greedy_after:.1%}"
            for run in self.runs
        )
        return (
            f"Greedy accuracy on {self.held_out} held-out problems after {self.rollouts:,} "
            f"rollouts each: {told}. One seed: it shows what happened here, not which remedy is "
            "better."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``summary.json``."""
        packages = {name: version(name) for name in ("torch", "trl", "transformers")}
        runs = [asdict(run) | {"directory": run.directory.name} for run in self.runs]
        return {
            "schema": 1,
            "version": __version__,
            "packages": packages,
            **{name: value for name, value in vars(self).items() if name != "runs"},
            "runs": runs,
        }


def run_demo(
    out: str | Path, *, steps: int | None = None, seed: int = 0, progress: bool = True
) -> Demo:
    """Train the shipped checkpoint with each of `REMEDIES`, side by side, and return the runs.

    The processes start from the same weights, problems and seed and get the same number of
    rollouts; they differ in the remedy alone. Nothing is downloaded, no tracker is started.

    Parameters
    ----------
    out
        Directory for a folder per remedy, their logs and ``summary.json``. One that an earlier demo
        made is replaced; any other that is not empty is refused.
    steps
        Training steps of 8 groups of 8 rollouts; 300 by default.
    seed
        Seed of the training problems, their order and the sampling.
    progress
        Show the runs on standard error as they go.

    Raises
    ------
    UsageError
        For steps below 1, a seed below 0 or an unusable directory.
    MissingExtraError
        Where torch or TRL is not installed.
    ButtressError
        Where a training fails; the message holds the end of its log.
    """
    steps = STEPS if steps is None else steps
    if steps < 1:
        raise UsageError(f"steps must be 1 or more; got {steps}")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be a whole number from 0 to 2^32 - 1; got {seed}")
    if find_spec("torch") is None or find_spec("trl") is None:
        raise MissingExtraError.of("buttress demo", "trl")
    started = time.perf_counter()
    out = _prepared(Path(out))
    settings = [
        Setting(remedy, str(out / remedy), steps, seed, LEARNING_RATE) for remedy in REMEDIES
    ]
    before: dict[str, Ready] = {}
    after: dict[str, Done] = {}
    with DemoProgress(REMEDIES, steps) if progress else nullcontext(_silent) as show:

        def heard(remedy: str, report: Report) -> None:
            if isinstance(report, Ready):
                before[remedy] = report
            elif isinstance(report, Done):
                after[remedy] = report
            show(remedy, report)

        run_side_by_side(settings, heard)
    demo = Demo(
        runs=tuple(
            DemoRun(
                remedy=remedy,
                directory=out / remedy,
                greedy_before=before[remedy].greedy,
                greedy_after=after[remedy].greedy,
                seconds=after[remedy].seconds,
            )
            for remedy in REMEDIES
        ),
        steps=steps,
        seed=seed,
        rollouts=steps * N_PROMPTS * GROUP_SIZE,
        held_out=HELD_OUT_PROBLEMS,
        learning_rate=LEARNING_RATE,
        seconds=time.perf_counter() - started,
    )
    text = msgspec.json.format(msgspec.json.encode(demo.as_dict()))
    (out / SUMMARY).write_bytes(text + b"\n")
    return demo


def _silent(remedy: str, report: Report) -> None:
    """Show nothing."""


def _prepared(out: Path) -> Path:
    """Return the directory, empty of an earlier demo and marked as ours."""
    try:
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out} is a file; --out takes a directory")
        if out.is_dir() and any(out.iterdir()):
            if not (out / MARK).is_file():
                raise UsageError(
                    f"{out} is not empty and no demo made it; choose another directory with --out"
                )
            for remedy in REMEDIES:
                if (out / remedy).exists():
                    shutil.rmtree(out / remedy)
                for ending in ("log", "html"):
                    (out / f"{remedy}.{ending}").unlink(missing_ok=True)
            (out / SUMMARY).unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        (out / MARK).write_text(f"made by buttress demo {__version__}\n", encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"cannot write to {out}: {fault.strerror or fault}") from None
    return out

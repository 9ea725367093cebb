"""From the records of an experiment to a table that can be quoted: means, paired differences."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from math import nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from buttress.errors import MissingExtraError, UsageError
from buttress.lab.experiments import EXPERIMENTS, Experiment, Record, run_experiment

MEASURES = ("pass@1", "pass@1 course", "greedy", "pass@16", "entropy")


def run_and_write(
    name: str, out: str | Path, *, quick: bool = False, workers: int | None = None
) -> tuple[Path, Path]:
    """Run an experiment into a directory and write its table; return the table's paths."""
    if name not in EXPERIMENTS:
        raise UsageError.unknown("experiment", name, EXPERIMENTS)
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingExtraError.of("the laboratory", "trl")
    experiment = EXPERIMENTS[name].quick() if quick else EXPERIMENTS[name]
    kind = "quick" if quick else "full"
    records = run_experiment(
        experiment,
        Path(out) / f"{name}-{kind}.jsonl",
        workers=workers,
        report=lambda line: sys.stderr.write(f"{line}\n"),
    )
    command = f"buttress lab run {name}" + (" --quick" if quick else "")
    return write_evidence(experiment, records, Path(out), command=command)


def summarise(experiment: Experiment, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return one row per tier and arm, with differences to the first arm paired by seed.

    Each measure has its mean over the seeds; each difference its mean, a 95 % t interval and the
    p value of the paired t test. Nothing is corrected for the number of comparisons.
    """
    cells: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        cells.setdefault((record["tier"], record["arm"]), {})[record["seed"]] = record
    baseline = experiment.arms[0].label
    rows = []
    for tier in experiment.tiers:
        for arm in experiment.arms:
            own, base = cells.get((tier, arm.label), {}), cells.get((tier, baseline), {})
            if not own:
                continue
            paired = sorted(own.keys() & base.keys())
            row: dict[str, Any] = {
                "tier": tier,
                "arm": arm.label,
                "seeds": len(own),
                "lr": next(iter(own.values()))["lr"],
                "rollouts": float(np.mean([one["rollouts"] for one in own.values()])),
                "initial acr": float(np.mean([one["initial acr"] for one in own.values()])),
                "acr": float(np.mean([one["acr"] for one in own.values()])),
                "norm": float(np.mean([one["norm"] for one in own.values()])),
            }
            for name in MEASURES:
                row[name] = float(np.mean([one[name] for one in own.values()]))
                if arm.label != baseline:
                    apart = [own[seed][name] - base[seed][name] for seed in paired]
                    row[f"{name} difference"] = paired_test(apart)
            rows.append(row)
    return rows


def paired_test(apart: Sequence[float]) -> dict[str, float]:
    """Return mean, 95 % interval, p value, number of pairs and of pairs above zero."""
    from scipy.stats import t

    n = len(apart)
    if n < 2:
        mean = float(np.mean(apart)) if n else nan
        return {"mean": mean, "low": nan, "high": nan, "p": nan, "n": n, "better": nan}
    mean, error = float(np.mean(apart)), float(np.std(apart, ddof=1)) / sqrt(n)
    half = float(t.ppf(0.975, n - 1)) * error
    p = float(2 * t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    better = int(sum(one > 0 for one in apart))
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": p, "n": n, "better": better}


def write_evidence(
    experiment: Experiment,
    records: Sequence[Record],
    folder: Path,
    *,
    command: str,
    conclusion: str = "",
) -> tuple[Path, Path]:
    """Write NAME.json and NAME.md into a folder and return their paths."""
    rows = summarise(experiment, records)
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "experiment": experiment.name,
        "question": experiment.question,
        "command": command,
        "steps": experiment.steps,
        "seeds": sorted({record["seed"] for record in records}),
        "rows": rows,
        "conclusion": conclusion,
    }
    as_json = folder / f"{experiment.name}.json"
    as_json.write_text(json.dumps(found, indent=1, allow_nan=True).replace("NaN", "null") + "\n")
    as_page = folder / f"{experiment.name}.md"
    as_page.write_text("\n".join(_page(experiment, rows, command, conclusion)) + "\n")
    return as_json, as_page


def _page(
    experiment: Experiment, rows: list[dict[str, Any]], command: str, conclusion: str
) -> list[str]:
    lines = [f"# {experiment.name}", "", experiment.question, "", f"Made by `{command}`.", ""]
    if conclusion:
        lines += [conclusion, ""]
    baseline = experiment.arms[0].label
    lines += [
        f"Differences to {baseline} in points, paired by seed, with 95 % intervals and the p value "
        "of a paired t test, not corrected for the number of comparisons. pass@1 course: mean over "
        "the evaluations of the run. The learning rate is the best of "
        f"{', '.join(f'{rate:g}' for rate in experiment.rates)} for each cell on other seeds.",
        "",
        "| start | arm | n | lr | pass@1 | difference | course | difference | pass@16 | entropy |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['tier']} (ACR {row['initial acr']:.2f}) | {row['arm']} | {row['seeds']} "
            f"| {row['lr']:g} | {100 * row['pass@1']:.1f} | {_points(row, 'pass@1')} "
            f"| {100 * row['pass@1 course']:.1f} | {_points(row, 'pass@1 course')} "
            f"| {100 * row['pass@16']:.1f} | {row['entropy']:.3f} |"
        )
    return lines


def _points(row: dict[str, Any], name: str) -> str:
    found = row.get(f"{name} difference")
    if found is None:
        return ""
    low, high = 100 * found["low"], 100 * found["high"]
    return f"{100 * found['mean']:+.1f} [{low:+.1f}, {high:+.1f}] p={found['p']:.2g}"

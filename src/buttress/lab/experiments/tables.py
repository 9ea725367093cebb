"""From records to a table: means, and differences paired by seed with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt
from typing import Any

import numpy as np

from buttress.lab.experiments.design import Experiment, Record

ALWAYS = ("rollouts", "updates", "initial acr", "acr", "acr after", "norm")


def summarise(experiment: Experiment, records: Sequence[Record]) -> list[Record]:
    """Return one row per condition and arm, with differences to the first arm paired by seed.

    Each measure has its mean over the seeds; each difference its mean, a 95 % t interval and the
    p value of the paired t test. Nothing is corrected for the number of comparisons.
    """
    cells: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        cells.setdefault((record["condition"], record["arm"]), {})[record["seed"]] = record
    rows = []
    for condition in experiment.conditions:
        base = cells.get((condition.label, experiment.arms[0].label), {})
        for arm in experiment.arms:
            own = cells.get((condition.label, arm.label), {})
            if own:
                rows.append(_row(experiment, condition.label, arm.label, own, base))
    return rows


def _row(
    experiment: Experiment,
    condition: str,
    arm: str,
    own: dict[int, Record],
    base: dict[int, Record],
) -> Record:
    runs = list(own.values())
    row: Record = {"condition": condition, "arm": arm, "seeds": len(own), "lr": runs[0]["lr"]}
    for name in dict.fromkeys((*ALWAYS, *experiment.measures)):
        values = [run[name] for run in runs if run.get(name) is not None]
        row[name] = float(np.mean(values)) if values else nan
    if arm != experiment.arms[0].label:
        paired = sorted(own.keys() & base.keys())
        for name in experiment.measures:
            row[f"{name} difference"] = paired_test(
                [own[seed][name] - base[seed][name] for seed in paired]
            )
    return row


def paired_test(apart: Sequence[float]) -> dict[str, Any]:
    """Return mean, 95 % interval, p value, number of pairs and of pairs above zero."""
    from scipy.stats import t

    known = [one for one in apart if np.isfinite(one)]
    n = len(known)
    mean = float(np.mean(known)) if n else nan
    better = sum(one > 0 for one in known)
    if n < 2:
        return {"mean": mean, "low": nan, "high": nan, "p": nan, "n": n, "better": better}
    error = float(np.std(known, ddof=1)) / sqrt(n)
    half = float(t.ppf(0.975, n - 1)) * error
    p = float(2 * t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": p, "n": n, "better": better}


def conclude(experiment: Experiment, rows: Sequence[Record]) -> str:
    """Return what the primary measure says of each arm, in the words that its p values allow.

    "Better" and "worse" are said at p < 0.05 / m, with m the number of comparisons in the table
    (Bonferroni); everything else is "not told apart".
    """
    name = f"{experiment.primary} difference"
    compared = [row for row in rows if name in row]
    if not compared:
        return ""
    limit = 0.05 / len(compared)
    sentences = []
    for arm in dict.fromkeys(row["arm"] for row in compared):
        verdicts: dict[str, list[str]] = {}
        for row in compared:
            if row["arm"] == arm:
                found = row[name]
                sure = found["p"] < limit
                word = ("above" if found["mean"] > 0 else "below") if sure else "not told apart"
                place = f"{row['condition']} ({100 * found['mean']:+.1f})"
                verdicts.setdefault(word, []).append(place)
        said = "; ".join(f"{word} at {', '.join(places)}" for word, places in verdicts.items())
        sentences.append(f"{arm}: {said}.")
    head = (
        f"{experiment.primary} against {experiment.arms[0].label}, in points, "
        f"with p < {limit:.2g} for a word (0.05 over {len(compared)} comparisons)."
    )
    return " ".join([head, *sentences])

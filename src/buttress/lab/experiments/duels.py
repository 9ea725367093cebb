"""One arm against each other one: not only against the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from buttress.lab.experiments.design import Experiment, Record
from buttress.lab.experiments.tables import paired_test


def duels(experiment: Experiment, records: Sequence[Record]) -> list[Record]:
    """Return one row per condition and rival of the contender; empty where there is none.

    Each measure holds contender minus rival, paired by seed, as `paired_test` gives it.
    """
    if experiment.contender is None:
        return []
    cells: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        cells.setdefault((record["condition"], record["arm"]), {})[record["seed"]] = record
    rows = []
    for condition in experiment.conditions:
        own = cells.get((condition.label, experiment.contender), {})
        for arm in experiment.arms:
            other = cells.get((condition.label, arm.label), {})
            paired = sorted(own.keys() & other.keys())
            if arm.label == experiment.contender or not paired:
                continue
            apart = {
                name: paired_test([own[seed][name] - other[seed][name] for seed in paired])
                for name in experiment.measures
            }
            rows.append(
                {"condition": condition.label, "contender": experiment.contender}
                | {"against": arm.label}
                | apart
            )
    return rows


def won(experiment: Experiment, rows: Sequence[Record]) -> str:
    """Return against whom the contender is ahead, by the primary measure, with each p value."""
    sentences = []
    for arm in dict.fromkeys(row["against"] for row in rows):
        places = [
            f"{row['condition']} {100 * row[experiment.primary]['mean']:+.1f}"
            f" (p={row[experiment.primary]['p']:.1g})"
            for row in rows
            if row["against"] == arm
        ]
        sentences.append(f"minus {arm}: {', '.join(places)}.")
    if not sentences:
        return ""
    return f"{experiment.primary} of {experiment.contender} " + " ".join(sentences)


def duel_table(experiment: Experiment, rows: Sequence[Record]) -> list[str]:
    """Return a Markdown table: points, 95 % interval, p, and the seeds in which it was ahead."""
    names = [name for name in experiment.measures if name != "entropy"]
    lines = [
        f"{experiment.contender} against each, in points, paired by seed:",
        "",
        f"| condition | against | {' | '.join(names)} |",
        "|" + "---|" * (len(names) + 2),
    ]
    for row in rows:
        cells = [row["condition"], row["against"]]
        for name in names:
            found = row[name]
            mean, low, high = (100 * found[one] for one in ("mean", "low", "high"))
            ahead = f"{found['better']}/{found['n']}"
            cells.append(f"{mean:+.1f} [{low:+.1f}, {high:+.1f}] p={found['p']:.2g}, {ahead}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines

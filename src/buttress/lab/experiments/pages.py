"""The page of an experiment: what it found in brief, a figure, every measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from buttress.lab.experiments.design import Experiment, Record
from buttress.lab.experiments.duels import duel_table

_COMPARED = ("pass@1", "pass@1 course", "greedy", "pass@16", "pass@256", "forgotten", "lost")
_COUNTS = ("updates", "rollouts")


def page(
    experiment: Experiment,
    rows: Sequence[Record],
    fought: Sequence[Record],
    probed: Sequence[Record],
    *,
    command: str,
    found: str,
    picture: bool,
) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    rows, fought, probed
        Of `summarise`, of `duels`, of the probe.
    found
        What records and probe say by themselves.
    """
    lines = [f"# {experiment.name}", "", experiment.question, "", f"Made by `{command}`.", ""]
    lines += [found, ""] if found else []
    lines += _brief(experiment, rows, fought)
    if picture:
        lines += [f"![{experiment.question}]({experiment.name}.svg)", ""]
    if len(experiment.arms) > 1:
        lines += ["## Every measure", "", _how(experiment), "", *_table(experiment, rows), ""]
    lines += [*duel_table(experiment, fought), ""] if fought else []
    besides = "What was measured besides" if rows else "Numbers"
    lines += [f"## {besides}", "", *_plain_table(probed)] if probed else []
    return "\n".join(lines).rstrip() + "\n"


def _brief(experiment: Experiment, rows: Sequence[Record], fought: Sequence[Record]) -> list[str]:
    """Return the primary measure alone: against the baseline, then of the contender."""
    difference = f"{experiment.primary} difference"
    compared = [row for row in rows if difference in row]
    lines = []
    if compared:
        lines += [
            f"{_said(experiment.primary)}, difference to {experiment.arms[0].label} in points; "
            f"{_sure(compared)}:",
            *_matrix(compared, lambda row: row["arm"], lambda row: row[difference]),
        ]
    if fought:
        lines += [
            f"{experiment.contender} minus each, in points; {_sure(fought)}:",
            *_matrix(fought, lambda row: row["against"], lambda row: row[experiment.primary]),
        ]
    return lines


def _said(measure: str) -> str:
    return {
        "pass@1 course": "Mean pass@1 over the run",
        "lost": "Share of runs that end below their start",
    }.get(measure, measure)


def _sure(rows: Sequence[Record]) -> str:
    return f"bold where p < {0.05 / len(rows):.2g} (0.05 over {len(rows)} comparisons)"


def _matrix(
    rows: Sequence[Record],
    arm_of: Callable[[Record], str],
    test_of: Callable[[Record], dict[str, float]],
) -> list[str]:
    conditions = dict.fromkeys(row["condition"] for row in rows)
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        test = test_of(row)
        points = f"{100 * test['mean']:+.1f}" if isfinite(test["mean"]) else "–"
        sure = test["p"] < 0.05 / len(rows)
        cells.setdefault(arm_of(row), {})[row["condition"]] = f"**{points}**" if sure else points
    lines = ["", f"| | {' | '.join(conditions)} |", "|---|" + "---:|" * len(conditions)]
    for arm, found in cells.items():
        lines.append(f"| {arm} | {' | '.join(found.get(one, '') for one in conditions)} |")
    return [*lines, ""]


def _how(experiment: Experiment) -> str:
    grids = [experiment.grid(one) for one in experiment.conditions]
    rates = sorted({rate for grid in grids for rate in grid})
    if any(len(grid) > 1 for grid in grids):
        tuned = (
            f"The learning rate is the best of {', '.join(f'{rate:g}' for rate in rates)} for each "
            "arm and condition on other seeds; controls take the rate of what they control. "
        )
    elif len(rates) > 1:
        tuned = "The learning rate is that of the condition. "
    else:
        tuned = f"Learning rate {rates[0]:g} for all. "
    return (
        f"In percent; in brackets the difference to {experiment.arms[0].label} in points, paired "
        f"by seed, with its 95 % interval; the p values are in the JSON. {tuned}Every arm spends "
        "the same rollouts; pass@1 course is the mean over the evaluations of a run. ACR is that "
        "of the groups drawn, before any remedy; in brackets, the share of groups without "
        "advantages after it."
    )


def _table(experiment: Experiment, rows: Sequence[Record]) -> list[str]:
    names = experiment.measures
    head = ["condition", "arm", "n", "lr", "ACR (after)"]
    head += names
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row["condition"], row["arm"], str(row["seeds"]), f"{row['lr']:g}"]
        cells.append(f"{row['acr']:.2f} ({row['acr after']:.2f})")
        for name in names:
            apart = _difference(row.get(f"{name} difference")) if name in _COMPARED else ""
            cells.append(f"{_value(name, row[name])} {apart}".strip())
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _value(name: str, value: float) -> str:
    if not isfinite(value):
        return "–"
    if name in _COUNTS:
        return f"{value:.0f}"
    return f"{value:.3f}" if name == "entropy" else f"{100 * value:.1f}"


def _difference(found: dict[str, float] | None) -> str:
    if found is None or not isfinite(found["low"]):
        return ""
    mean, low, high = (100 * found[name] for name in ("mean", "low", "high"))
    return f"({mean:+.1f} [{low:+.1f}, {high:+.1f}])"


def _plain_table(rows: Sequence[Record]) -> list[str]:
    lines: list[str] = []
    last: list[str] = []
    for row in rows:
        names = list(row)
        if names != last:
            lines += ["", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
            last = names
        lines.append(f"| {' | '.join(map(_short, row.values()))} |")
    return lines[1:]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""One figure per experiment: where each arm stands against the baseline, or its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from buttress.lab.experiments.design import Experiment, Record

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933")


def draw(
    experiment: Experiment,
    rows: Sequence[Record],
    records: Sequence[Record],
    probed: Sequence[Record],
    path: Path,
) -> bool:
    """Draw the figure of an experiment; return False where matplotlib is not installed."""
    own = experiment.figure is not None
    if find_spec("matplotlib") is None or not (own or len(experiment.arms) > 1):
        return False
    import matplotlib as mpl

    mpl.use("Agg")
    # the same figure has the same bytes
    mpl.rcParams.update({"svg.hashsalt": experiment.name, "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    if experiment.figure is not None:
        figure = experiment.figure(records, probed)
    elif experiment.axis:
        figure = _lines(experiment, rows)
    else:
        figure = _forest(experiment, rows)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    return True


def _forest(experiment: Experiment, rows: Sequence[Record]) -> Any:
    """Differences to the baseline with their intervals, one band per condition."""
    from matplotlib import pyplot

    name = f"{experiment.primary} difference"
    compared = [row for row in rows if name in row]
    arms = list(dict.fromkeys(row["arm"] for row in compared))
    figure, axes = pyplot.subplots(figsize=(6.4, 0.6 + 0.24 * len(compared)))
    places, labels, place = [], [], 0.0
    for condition in dict.fromkeys(row["condition"] for row in compared):
        for row in (one for one in compared if one["condition"] == condition):
            found = row[name]
            mean, low, high = (100 * found[one] for one in ("mean", "low", "high"))
            colour = COLOURS[1 + arms.index(row["arm"]) % (len(COLOURS) - 1)]
            axes.plot([low, high], [place, place], color=colour, linewidth=1.5)
            axes.plot([mean], [place], "o", color=colour, markersize=4)
            places.append(place)
            labels.append(f"{row['arm']} · {condition}")
            place -= 1
        place -= 0.7
    axes.axvline(0, color="#888888", linewidth=0.8)
    axes.set_yticks(places, labels)
    axes.set_xlabel(
        f"{experiment.primary} minus {experiment.arms[0].label}, points (95 % interval)"
    )
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _lines(experiment: Experiment, rows: Sequence[Record]) -> Any:
    """The primary measure and the ACR along the axis of the conditions, one line per arm."""
    from matplotlib import pyplot

    levels = {one.label: one.level for one in experiment.conditions}
    figure, panels = pyplot.subplots(1, 2, figsize=(7.2, 2.8))
    for place, arm in enumerate(experiment.arms):
        own = [row for row in rows if row["arm"] == arm.label]
        x = [levels[row["condition"]] for row in own]
        for axes, name in zip(panels, (experiment.primary, "acr"), strict=True):
            y = [100 * row[name] for row in own]
            axes.plot(
                x, y, "o-", color=COLOURS[place % len(COLOURS)], markersize=3, label=arm.label
            )
    for axes, name in zip(panels, (experiment.primary, "ACR over the run"), strict=True):
        axes.set_xlabel(experiment.axis)
        axes.set_ylabel(f"{name}, %")
        axes.spines[["top", "right"]].set_visible(False)
        if experiment.axis == "group size":
            axes.set_xscale("log", base=2)
    panels[0].legend(frameon=False, fontsize=7)
    figure.tight_layout()
    return figure

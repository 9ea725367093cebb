"""Does the early collapse rate foretell the result, and more than its obvious rivals do?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.lab.experiments.design import Record

RIVALS = ("early pass rate", "initial greedy")
DRAWS = 2000


def r_squared(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return R² of the least-squares plane of y over the columns of x, ``(run, predictor)``.

    NaN where y does not vary.
    """
    design = np.column_stack([np.ones(len(y)), x])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    total = ((y - y.mean()) ** 2).sum()
    return float(1 - (residual**2).sum() / total) if total > 0 else float("nan")


def fits(records: Sequence[Record]) -> list[Record]:
    """Return R² with a 95 % bootstrap interval for each set of predictors, over all runs."""
    y = np.array([record["greedy"] for record in records])
    columns = {
        name: np.array([record[name] for record in records]) for name in ("early acr", *RIVALS)
    }
    sets = [("early acr",), *((one,) for one in RIVALS), *((one, "early acr") for one in RIVALS)]
    draws = np.random.default_rng(0).integers(0, len(y), (DRAWS, len(y)))
    rows = []
    for names in sets:
        x = np.column_stack([columns[name] for name in names])
        spread = [r_squared(x[draw], y[draw]) for draw in draws]
        low, high = np.nanpercentile(spread, [2.5, 97.5])
        rows.append(
            {
                "predictors": " + ".join(names),
                "runs": len(y),
                "R2": r_squared(x, y),
                "low": float(low),
                "high": float(high),
            }
        )
    return rows


def analyse(records: Sequence[Record], _: Sequence[Record]) -> str:
    """Return what the fits say, in numbers."""
    found = {row["predictors"]: row for row in fits(records)}
    alone = found["early acr"]
    slope, level = np.polyfit(
        [record["early acr"] for record in records], [record["greedy"] for record in records], 1
    )
    rivals = "; ".join(
        f"{name} alone {found[name]['R2']:.2f}, "
        f"with the ACR {found[f'{name} + early acr']['R2']:.2f}"
        for name in RIVALS
    )
    return (
        f"Over {len(records)} configurations the early ACR explains R2 = {alone['R2']:.2f} "
        f"[{alone['low']:.2f}, {alone['high']:.2f}] of the final greedy accuracy (line: "
        f"{100 * level:.1f} {100 * slope:+.1f} ACR, in points; the paper has 51.4 - 29.6 ACR and "
        f"0.617 on its models). R2 of the rivals: {rivals}."
    )


def figure(records: Sequence[Record], _: Sequence[Record]) -> Any:
    """Return final accuracy over the early ACR and over the early pass rate, by starting point."""
    from matplotlib import pyplot

    from buttress.lab.experiments.figures import COLOURS

    drawn, panels = pyplot.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
    starts = list(dict.fromkeys(record["condition"].split(",")[0] for record in records))
    for axes, name in zip(panels, ("early acr", "early pass rate"), strict=True):
        for start, colour in zip(starts, COLOURS, strict=False):
            own = [one for one in records if one["condition"].split(",")[0] == start]
            axes.plot(
                [one[name] for one in own],
                [100 * one["greedy"] for one in own],
                "o",
                markersize=3,
                color=colour,
                alpha=0.7,
                label=start,
            )
        axes.set_xlabel(f"{name} (first 20 steps)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("final greedy accuracy, %")
    panels[0].legend(frameon=False, fontsize=7)
    drawn.tight_layout()
    return drawn

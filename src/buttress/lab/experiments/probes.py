"""Experiments that measure something besides training runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from buttress.lab.experiments.design import Arm, Condition, Experiment, Record
from buttress.lab.experiments.remedies import GRPO
from buttress.lab.rare_answers import RareAnswers, simulate_retention
from buttress.measures import tail_miss_rate

_SIZES = tuple(2**power for power in range(1, 18))
_MEASURED = ("grpo", "dr_grpo", "avspo", "filter_drop", "dcpo", "f_grpo", "maxnorm_ac", "posterior")


def tail_miss(quick: bool) -> list[Record]:
    """Return, per group size, the chance to miss the rare right answers and what is retained."""
    setting = RareAnswers()
    right, rare = 0.63008, setting.right * 6.2967e-5 / 100  # a hundredth of the rare answers
    sizes, seeds, steps = (_SIZES[::3], 1, 200) if quick else (_SIZES, 2, 1000)
    rows = []
    for n in sizes:
        for gamma in (0.0, 1.0):
            runs = [
                simulate_retention(setting, n, gamma, steps=steps, seed=seed)
                for seed in range(seeds)
            ]
            rows.append(
                {
                    "group size": n,
                    "gamma": gamma,
                    "active and missing": float(tail_miss_rate(right, rare, n)),
                    "retained": float(np.mean([run["retained"] for run in runs])),
                    "right mass": float(np.mean([run["right"] for run in runs])),
                    "silent": float(np.mean([run["silent"] for run in runs])),
                    "seeds": seeds,
                    "steps": steps,
                }
            )
    return rows


def _tail_miss_says(_: Sequence[Record], rows: Sequence[Record]) -> str:
    plain = [row for row in rows if row["gamma"] == 0]
    focal = {row["group size"]: row for row in rows if row["gamma"] == 1}
    worst = min(plain, key=lambda row: row["retained"])
    back = plain[-1]["retained"] - worst["retained"] > 0.01
    inside = plain[0]["group size"] < worst["group size"] and back
    between = (
        ": the loss is worst in between, as arXiv 2602.06717 says"
        if inside
        else ": larger groups bring nothing back, unlike in arXiv 2602.06717. Most likely this "
        "optimiser has all but ended on the likely answer by then: fewer steps (--quick) show the "
        "paper's curve"
    )
    kept = [focal[row["group size"]]["retained"] - row["retained"] for row in plain]
    return (
        f"Of the right answers' probability {100 * worst['retained']:.1f} % is retained at the "
        f"worst group size, {worst['group size']}, against {100 * plain[-1]['retained']:.1f} % at "
        f"{plain[-1]['group size']}{between}. The "
        f"focal weight (gamma 1) changes it by {100 * min(kept):+.1f} to {100 * max(kept):+.1f} "
        "points. The step is Adam's (our reading)."
    )


def _tail_miss_figure(_: Sequence[Record], rows: Sequence[Record]) -> Any:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(7.2, 2.8))
    for gamma, style in ((0.0, "o-"), (1.0, "s--")):
        own = [row for row in rows if row["gamma"] == gamma]
        x = [row["group size"] for row in own]
        panels[0].plot(x, [row["active and missing"] for row in own], "k-", linewidth=1)
        panels[1].plot(x, [row["retained"] for row in own], style, label=f"gamma {gamma:g}")
    panels[0].set_ylabel("active, rare answers missed")
    panels[1].set_ylabel("retained right mass")
    panels[1].legend(frameon=False)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlabel("group size")
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def overhead(quick: bool) -> list[Record]:
    """Return milliseconds of one advantage computation beside those of a whole training step."""
    from buttress.groups import Groups
    from buttress.lab.policy_training import Setting, train_policy
    from buttress.lab.starts import STARTS, problem_sets, starting_point
    from buttress.remedies import estimator

    start = STARTS["acr80"]
    problems, held_out = problem_sets(start, 0, held_out=8)
    steps = 20 if quick else 100
    setting = Setting(steps=steps, evaluate_every=10**6)
    history = train_policy(starting_point(start), problems, held_out, setting)
    whole = 1e3 * history.seconds / steps
    generator, rows = np.random.default_rng(0), []
    for name in _MEASURED:
        row: Record = {"remedy": name}
        for prompts, group in ((8, 8), (64, 8), (512, 16)):
            estimate, taken = estimator(name), []
            for _ in range(20 if quick else 100):
                reward = (generator.random((prompts, group)) < 0.2).astype(float)
                groups = Groups.from_dense(reward, prompt_id=np.arange(prompts))
                begin = time.perf_counter()
                estimate(groups)
                taken.append(time.perf_counter() - begin)
            row[f"{prompts}x{group}, ms"] = 1e3 * float(np.median(taken))
        row["share of a step, %"] = 100 * row["8x8, ms"] / whole
        rows.append(row)
    return rows


def _overhead_says(_: Sequence[Record], rows: Sequence[Record]) -> str:
    most = max(rows, key=lambda row: row["512x16, ms"])
    return (
        f"The dearest remedy for 512 groups of 16, {most['remedy']}, takes "
        f"{most['512x16, ms']:.2f} ms (the paper allows AVSPO 3 ms); for 8 groups of 8 all take at "
        f"most {max(row['share of a step, %'] for row in rows):.1f} % of a step of the tiny model."
    )


def curvature(quick: bool) -> list[Record]:
    """Return how curvature goes with reward variance, and how orthogonal prompts are.

    The tasks have one right answer, so a prompt's success rate p is a smooth function of the
    weights that one forward pass gives exactly; its gradient and the largest curvature along it are
    exact too.
    """
    from buttress.lab.experiments.geometry import geometry
    from buttress.lab.policy_training import Setting, train_policy
    from buttress.lab.starts import STARTS, problem_sets, starting_point

    rows = []
    for name in ("acr45", "acr80"):
        start = STARTS[name]
        decoder = starting_point(start)
        problems, held_out = problem_sets(start, 0, held_out=8)
        for stage in range(2 if quick else 4):
            if stage:
                setting = Setting(steps=50, lr=2e-4, seed=stage, evaluate_every=10**6)
                train_policy(decoder, problems, held_out, setting)
            found = geometry(decoder, problems.select(np.arange(16 if quick else 48)))
            rows.append({"start": name, "after steps": 50 * stage, **found})
    return rows


def _curvature_says(_: Sequence[Record], rows: Sequence[Record]) -> str:
    linked = [row["rank correlation"] for row in rows]
    apart = [row["mean |cosine|"] for row in rows]
    return (
        f"Curvature along the gradient goes with p(1-p) at a rank correlation of {min(linked):.2f} "
        f"to {max(linked):.2f} over prompts; gradients of two prompts have a mean |cosine| of "
        f"{min(apart):.2f} to {max(apart):.2f} (0 is the orthogonality that the theory asks for)."
    )


TAIL_MISS = Experiment(
    "tail-miss",
    "F-GRPO: which group sizes lose right answers that they rarely sample?",
    probe=tail_miss,
    analyse=_tail_miss_says,
    figure=_tail_miss_figure,
)
OVERHEAD = Experiment(
    "overhead",
    "Table 7: what does a remedy cost beside a training step?",
    probe=overhead,
    analyse=_overhead_says,
)
NORMALISATION = Experiment(
    "normalisation",
    "Why normalise? By the group's deviation, by the batch's, or not at all; and does curvature go "
    "with reward variance?",
    (
        GRPO,
        Arm("global_norm", {"method": "global_norm"}),
        Arm("dr_grpo", {"method": "dr_grpo"}),
        Arm("is_grpo", {"method": "is_grpo"}),
    ),
    Condition.of_tiers("acr45", "acr80"),
    seeds=tuple(range(6)),
    probe=curvature,
    analyse=_curvature_says,
)

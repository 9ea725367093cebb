"""Experiments that turn one dial: Figures 1, 3 and 6 to 9 of the paper."""

from __future__ import annotations

from itertools import product

from buttress.lab.experiments import forecast
from buttress.lab.experiments.design import TIERS, Arm, Condition, Experiment
from buttress.lab.experiments.remedies import AVSPO, GRPO, POSTERIOR

_ARMS = (GRPO, AVSPO, POSTERIOR)

TEMPERATURE = Experiment(
    "temperature",
    "Figure 7: how does the sampling temperature move the collapse rate and what is learned?",
    _ARMS,
    tuple(
        Condition(f"T={t:g}", "acr80", {"temperature": t}, level=t) for t in (0.6, 0.8, 1.0, 1.2)
    ),
    rates=(2e-4,),
    seeds=tuple(range(5)),
    axis="temperature",
)
GROUP_SIZE = Experiment(
    "group-size",
    "Figure 8: how does the group size move them, at equal rollouts per step?",
    _ARMS,
    tuple(
        Condition(f"G={g}", "acr80", {"group": g, "prompts": 64 // g}, level=g)
        for g in (2, 4, 8, 16, 32)
    ),
    rates=(2e-4,),
    seeds=tuple(range(5)),
    axis="group size",
)
DIFFICULTY = Experiment(
    "difficulty",
    "Figure 9: how does the difficulty of the task move them?",
    _ARMS,
    (
        *(Condition(name, name) for name in ("solved", *TIERS)),
        *(Condition(name, name) for name in ("addition", "multiplication", "modular", "parity")),
    ),
    rates=(2e-4,),
    seeds=tuple(range(5)),
    contender="posterior",
)
SCALE = Experiment(
    "scale",
    "Figure 6: how does the size of the model move them?",
    _ARMS,
    tuple(
        Condition(f"width {width}", name, level=width)
        for width, name in ((48, "acr80-width48"), (96, "acr80"), (192, "acr80-width192"))
    ),
    rates=(2e-4,),
    seeds=tuple(range(5)),
    axis="width of the model",
)
STABILITY = Experiment(
    "stability",
    "How large a learning rate does a run survive with each method?",
    _ARMS,
    tuple(
        Condition(f"{start}, {rate:g}", start, rates=(rate,), level=rate)
        for start in ("parity", "acr80")
        for rate in (1e-4, 2e-4, 4e-4)
    ),
    seeds=tuple(range(8)),
    primary="lost",
    measures=("lost", "pass@1", "pass@1 course", "greedy", "entropy"),
    contender="posterior",
)
# 5 starting points x 7 temperatures x 7 group sizes: as many configurations as the paper has
ACR_FORECAST = Experiment(
    "acr-forecast",
    "Figure 1: does the early collapse rate foretell the final accuracy, and better than the early "
    "pass rate does?",
    (Arm("grpo"),),
    tuple(
        Condition(
            f"{start}, T={t:g}, G={g}",
            start,
            {"temperature": t, "group": g, "prompts": max(2, 64 // g), "held_out": 200},
        )
        for start, t, g in product(
            ("solved", *TIERS), (0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2), (2, 3, 4, 6, 8, 12, 16)
        )
    ),
    rates=(2e-4,),
    steps=100,
    seeds=(0,),
    primary="greedy",
    quick_steps=40,
    quick_seeds=1,
    analyse=forecast.analyse,
    figure=forecast.figure,
)

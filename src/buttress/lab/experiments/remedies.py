"""Experiments that compare remedies: the paper's Tables 1 to 5, and ours against all."""

from __future__ import annotations

from typing import Any

from buttress.lab.experiments.design import Arm, Condition, Experiment
from buttress.remedies.losses import CispoVerl, Dapo, DcpoClip, McpoHingeKl

GRPO = Arm("grpo")
DAPO = Arm("dapo", {"resample": 4, "loss": Dapo(clip_high=0.28)})
DROP = Arm("filter_drop", {"method": "filter_drop"})


def avspo(label: str = "avspo", *, rate_of: str | None = None, **options: Any) -> Arm:
    """Return AVSPO with options of its own."""
    return Arm(label, {"method": "avspo", "options": options}, rate_of)


AVSPO = avspo()
POSTERIOR = Arm("posterior", {"method": "posterior"})


_ALL_TIERS = (
    *Condition.of_tiers("acr30", "acr45", "acr80"),
    # from so few successes a run needs longer, and slower steps are worth a try
    Condition("acr95", "acr95", {"steps": 400}, rates=(5e-5, 1e-4, 2e-4, 4e-4)),
)
_TWO_TIERS = Condition.of_tiers("acr45", "acr80")

METHODS = Experiment(
    "methods",
    "Table 1 at small scale: which method learns most at equal rollouts, over model sizes?",
    (
        GRPO,
        Arm("dcpo", {"method": "dcpo", "loss": DcpoClip()}),
        Arm("intuitor", {"reward": "intuitor"}),
        Arm("rent", {"reward": "rent"}),
        AVSPO,
        POSTERIOR,
    ),
    Condition.of_tiers("acr80-width48", "acr80", "acr80-width192"),
    seeds=tuple(range(5)),
    contender="posterior",
)
POSTERIOR_AGAINST_ALL = Experiment(
    "posterior",
    "Does the posterior baseline beat GRPO, AVSPO, Filter-Drop and DAPO at equal rollouts, at "
    "every starting collapse rate?",
    (
        GRPO,
        AVSPO,
        DROP,
        DAPO,
        POSTERIOR,
        Arm(
            "posterior, own norm",
            {"method": "posterior", "options": {"norm": "own"}},
            "posterior",
        ),
        Arm(
            "posterior, random sign on ties",
            {"method": "posterior", "control": "random_sign_tied"},
            "posterior",
        ),
    ),
    _ALL_TIERS,
    seeds=tuple(range(300, 312)),
    contender="posterior",
)
FRESH_PROMPTS = Experiment(
    "fresh-prompts",
    "What is left of posterior's gain where no prompt comes twice, so that the running batch mean "
    "is all that it can believe?",
    (
        GRPO,
        AVSPO,
        POSTERIOR,
        Arm(
            "posterior, random sign on ties",
            {"method": "posterior", "control": "random_sign_tied"},
            "posterior",
        ),
    ),
    tuple(
        Condition(f"{name}, {what}", name, {"problems": problems})
        for name in ("acr45", "acr80")
        for what, problems in (("each prompt once", 1600), ("32 prompts", 32))
    ),
    rates=(2e-4,),
    seeds=tuple(range(6)),
    contender="posterior",
)
VIRTUAL_SAMPLES = Experiment(
    "virtual-samples",
    "Table 2: does it matter which values the virtual samples have?",
    (
        GRPO,
        *(
            avspo(f"avspo, {strategy}", strategy=strategy, threshold="always", rate_of="grpo")
            for strategy in ("uniform", "fixed", "exponential", "stratified")
        ),
        Arm(
            "avspo, stratified, random sign",
            {
                "method": "avspo",
                "options": {"threshold": "always"},
                "control": "random_sign_tied",
            },
            "grpo",
        ),
    ),
    _TWO_TIERS,
    seeds=tuple(range(6)),
)
MECHANISM = Experiment(
    "mechanism",
    "Table 3: do virtual samples help in all-wrong groups, in all-correct ones, or in both?",
    (
        GRPO,
        *(
            avspo(f"avspo, {only}", only=only, threshold="always", rate_of="grpo")
            for only in ("wrong", "correct", "both")
        ),
    ),
    (*_TWO_TIERS, Condition("solved", "solved")),
    seeds=tuple(range(6)),
)
THRESHOLD = Experiment(
    "threshold",
    "Table 4: fixed thresholds against the adaptive one.",
    (
        GRPO,
        *(
            avspo(f"avspo, {threshold}", threshold=threshold, rate_of="grpo")
            for threshold in (0.3, 0.5, 0.7, "always", "adaptive")
        ),
    ),
    _TWO_TIERS,
    seeds=tuple(range(6)),
)
FILTERING = Experiment(
    "filtering",
    "Table 5: are dropping or resampling tied groups worth it, per rollout and per update?",
    (GRPO, DROP, DAPO, AVSPO),
    Condition.of_tiers("acr45", "acr80"),
    seeds=tuple(range(6)),
    measures=("pass@1", "pass@1 course", "pass@16", "updates", "rollouts"),
)
ALPHA = Experiment(
    "alpha",
    "How many virtual samples: the exponent alpha of K = ceil(G ACR^alpha).",
    (
        GRPO,
        *(
            avspo(f"avspo, alpha {alpha:g}", alpha=alpha, threshold="always", rate_of="grpo")
            for alpha in (0.3, 0.5, 0.7, 1.0)
        ),
    ),
    _TWO_TIERS,
    seeds=tuple(range(6)),
)
ROBUSTNESS = Experiment(
    "robustness",
    "Do AVSPO and posterior hold when the verifier errs, and over their own constants?",
    (
        GRPO,
        AVSPO,
        avspo("avspo, rate 0.1", threshold_rate=0.1, rate_of="avspo"),
        avspo("avspo, start 0.3", threshold_init=0.3, rate_of="avspo"),
        POSTERIOR,
        Arm(
            "posterior, strength 4",
            {"method": "posterior", "options": {"strength": 4.0}},
            "posterior",
        ),
        Arm(
            "posterior, strength auto",
            {"method": "posterior", "options": {"strength": "auto", "forget": "auto"}},
            "posterior",
        ),
    ),
    (
        Condition("acr80, exact", "acr80"),
        Condition("acr80, 2 % flipped", "acr80", {"flip": 0.02}),
        Condition("acr80, 10 % flipped", "acr80", {"flip": 0.1}),
    ),
    rates=(2e-4,),
    seeds=tuple(range(6)),
)
MASTERY = Experiment(
    "mastery",
    "MCPO: are prompts that were mastered forgotten, and do its weights and its hinge help?",
    (
        GRPO,
        Arm("mcpo, weights", {"method": "mcpo"}, "grpo"),
        Arm("mcpo, weights and hinge", {"method": "mcpo", "loss": McpoHingeKl()}, "grpo"),
        Arm("posterior", {"method": "posterior"}, "grpo"),
    ),
    tuple(Condition(name, name, {"updates": 4}) for name in ("acr30", "solved")),
    seeds=tuple(range(6)),
    primary="forgotten",
    measures=("pass@1", "pass@1 course", "forgotten", "pass@16", "entropy"),
    rates=(2e-4,),
)
CREDIT = Experiment(
    "credit",
    "Do token-level credits learn more than one advantage per rollout?",
    (
        GRPO,
        Arm("dr_grpo", {"method": "dr_grpo"}),
        Arm("ep_grpo", {"method": "ep_grpo"}),
        Arm("grpo_vps", {"method": "grpo_vps"}),
        Arm("rl_zvp", {"method": "rl_zvp"}),
    ),
    _TWO_TIERS,
    seeds=tuple(range(6)),
)
CALIBRATION = Experiment(
    "calibration",
    "MaxNorm-AC: what does reward jitter below the verifier's resolution do?",
    (
        GRPO,
        Arm("maxnorm_ac", {"method": "maxnorm_ac"}),
        Arm("dr_grpo", {"method": "dr_grpo"}),
        AVSPO,
        POSTERIOR,
    ),
    tuple(
        Condition(f"acr80, jitter {jitter:g}", "acr80", {"jitter": jitter}, level=jitter)
        for jitter in (0.0, 1e-4, 1e-3)
    ),
    seeds=tuple(range(6)),
    rates=(1e-4, 2e-4),
)
ZERO_GRADIENT_STEP = Experiment(
    "zero-gradient-step",
    "What does skipping the optimiser step of fully tied batches change?",
    (GRPO, Arm("grpo, silent steps skipped", {"skip_silent_steps": True}, "grpo")),
    (*_TWO_TIERS, Condition("acr95", "acr95", {"steps": 400}, rates=(5e-5, 1e-4, 2e-4))),
    seeds=tuple(range(8)),
)
SMOLLM2 = Experiment(
    "smollm2",
    "A real language model: SmolLM2-135M on two-digit sums, its last six layers trained.",
    (
        GRPO,
        avspo(rate_of="grpo"),
        Arm("posterior", {"method": "posterior"}, "grpo"),
    ),
    (Condition("two-digit sums", "smollm2-sums", {"bf16": True, "held_out": 96, "tries": 8}),),
    steps=40,
    rates=(2e-5,),
    seeds=tuple(range(5)),
    measures=("pass@1", "pass@1 course", "greedy", "entropy"),
    contender="posterior",
    quick_seeds=1,
    quick_steps=12,
)
PASS_AT_K = Experiment(
    "pass-at-k",
    "F-GRPO: does the focal weight keep pass@256 while raising pass@1, over group sizes and bases?",
    (
        GRPO,
        Arm("f_grpo", {"method": "f_grpo"}, "grpo"),
        Arm("dapo loss", {"loss": Dapo(clip_high=0.28)}, "grpo"),
        Arm("f_grpo, dapo loss", {"method": "f_grpo", "loss": Dapo(clip_high=0.28)}, "grpo"),
        Arm("cispo loss", {"loss": CispoVerl()}, "grpo"),
        Arm("f_grpo, cispo loss", {"method": "f_grpo", "loss": CispoVerl()}, "grpo"),
        Arm("posterior", {"method": "posterior"}, "grpo"),
    ),
    tuple(
        Condition(
            f"maze, G={group}",
            "maze",
            {"group": group, "prompts": 64 // group, "tries": 256, "held_out": 100},
            level=group,
        )
        for group in (2, 4, 8, 16)
    ),
    seeds=tuple(range(4)),
    rates=(1e-4, 2e-4),
    measures=("pass@1", "pass@1 course", "pass@16", "pass@256", "entropy"),
    axis="group size",
)

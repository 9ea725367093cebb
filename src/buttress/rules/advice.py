"""What to do about collapse, in the order of cause; shared by the rules that see its sides.

Remedies go by the names under which `buttress remedies` lists them.
"""

from __future__ import annotations

from buttress.rules.case import Case
from buttress.rules.causes import cause, dominant_kind
from buttress.rules.finding import Advice

RAISE_CAP = Advice(
    "raise the completion cap (max_completion_length)",
    "a completion that is cut off has no answer to grade, whatever the model knows",
    "memory and time grow with the longest completion",
)
FILTER_OVERLONG = Advice(
    "where the cap cannot grow, leave truncated completions out of the loss (overlong filtering) "
    "or charge for length before the cap (DAPO's soft overlong penalty)",
    "the cap then stops looking like a wrong answer",
    "filtering gives up their rollouts, the groups stay tied; a penalty moves groups by length "
    "alone",
)
AGAINST_TRUNCATION = [RAISE_CAP, FILTER_OVERLONG]
RANDOMISE = Advice(
    "give every rollout its own random numbers: temperature above 0, a seed per rollout and rank, "
    "no cached responses",
    "equal texts get equal rewards",
    "none",
)
REVIVE_CORRECTNESS = Advice(
    "make correctness vary first: grade some completions by hand, then start from prompts that are "
    "solved sometimes or warm up on solved examples",
    "while it is zero everywhere, nothing points to a right answer",
    "choosing data; a short supervised run",
)
FREEZE_FORMAT = Advice(
    "drop the saturated component, or pay it only with a right answer",
    "a constant changes no advantage; it only makes the mean reward look alive",
    "none once the format is learnt",
)
CHECK_VERIFIER = Advice(
    "grade ten of these completions by hand",
    "a verifier that misses right answers leaves the same trace as prompts out of reach",
    "minutes",
)
REACHABLE = Advice(
    "mix in prompts that the model solves sometimes, or warm up on solved examples",
    "a prompt that is never solved gives no gradient under any group baseline",
    "choosing data (`buttress prompts` sorts it) or a short supervised run",
)
MORE_ROLLOUTS = Advice(
    "sample more rollouts per prompt where the success rate is small but not zero",
    "at a rate of 2 % a group of 8 is all wrong in 85 % of the cases, one of 64 in 27 %",
    "rollouts in proportion",
)
TEACH_FROM_TIES = Advice(
    "let tied groups teach: `posterior` or `avspo`",
    "they give an all-wrong group a negative and an all-correct group a positive advantage",
    "no rollouts; on a tiny model `posterior` (norm=grpo) learnt faster than `grpo` at every ACR; "
    "`avspo` helped below an ACR of 0.5 and did great harm at 0.95",
)
RETIRE_PROMPTS = Advice(
    "sample prompts that are always solved rarely or not at all (GRESO, difficulty pools)",
    "they have nothing left to teach; `buttress prompts` lists them",
    "none; look at them again now and then, since solved prompts can be lost",
)
HARDER_PROMPTS = Advice(
    "add harder prompts, at the edge of what the model solves",
    "there the groups are mixed",
    "choosing data",
)

ROLL_BACK = Advice(
    "go back to a checkpoint from before the fall and look at that time for a jump in grad_norm, "
    "kl, entropy or length; then a smaller learning rate or clip range",
    "the groups were alive until then, so that the prompts are not to blame",
    "the steps since then",
)

LOG_CORRECTNESS = Advice(
    "log the verifier's outcome as `correct`",
    "a constant format reward and a solved task look alike in the total",
    "one column",
)
LOG_ROLLOUTS = Advice(
    "log the rollouts too (TRL: log_completions=True) and diagnose those",
    "the scalar does not say which groups tie, of which kind and why",
    "disk space",
)


def resample(acr: float) -> Advice:
    """Return the advice to replace tied groups while sampling, with its price at this ACR."""
    return Advice(
        "replace tied groups while sampling (DAPO dynamic sampling)",
        "every group in the update then carries a signal",
        f"about {1 / (1 - acr):.1f} times the rollouts at this ACR; from equal rollouts a tiny "
        "model learnt less than with `grpo`"
        if acr < 1
        else "without end here: no group is mixed",
    )


def against_collapse(case: Case) -> list[Advice]:
    """Return what to do about the tied groups of a run, the cause first.

    All wrong and all correct need opposite cures, and a cause outside the prompts (truncation, a
    dead component, repeated texts) makes both useless until it is gone.
    """
    causes = {
        "repetition": [RANDOMISE],
        "truncation": AGAINST_TRUNCATION,
        "format": [REVIVE_CORRECTNESS, FREEZE_FORMAT],
    }
    found = cause(case)
    if found:
        return causes[found]
    if case.course.fallen:
        return [ROLL_BACK, CHECK_VERIFIER]
    again = resample(case.acr)
    # where nothing was ever solved, more of the same is no cure
    more = [MORE_ROLLOUTS] if case.counts.mixed else []
    kinds = {
        "all_wrong": [CHECK_VERIFIER, REACHABLE, *more, TEACH_FROM_TIES],
        "all_correct": [RETIRE_PROMPTS, HARDER_PROMPTS, again],
    }
    return kinds.get(dominant_kind(case) or "", [TEACH_FROM_TIES, RETIRE_PROMPTS, again])

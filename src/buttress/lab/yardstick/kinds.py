"""Every kind of run in the corpus: what is done to a recording, and which rules tell the truth.

The labels of a kind are the rules that name a true cause. `accepts` are rules that may speak as
well, because what they say is true too: a consequence of the cause, or another side of it. Neither
finding nor missing them counts. `advantage-collapse` is a label wherever the cause ties most of the
groups, so that a tool which sees the collapse and not its reason gets credit for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from buttress.lab.yardstick import grading_causes as grading
from buttress.lab.yardstick import log_causes as log
from buttress.lab.yardstick import reward_causes as rewards
from buttress.lab.yardstick import sampling_causes as sampling
from buttress.lab.yardstick import trainer_causes as trainer
from buttress.lab.yardstick.draft import Draft, Phase

Format = Literal["trl", "verl", "verl-v1", "generic"]
Change = Callable[[Draft, np.random.Generator], None]

COLLAPSE = "advantage-collapse"
WRONG, RIGHT = "all-wrong-collapse", "all-correct-collapse"
DIFFICULTY = (COLLAPSE, WRONG, RIGHT)
# What follows from a collapse, whatever its reason.
AFTER = ("early-forecast", "diluted-loss", "group-size-floor", "kl-only-gradient")
DEAD = (WRONG, "verifier-suspect", "component-collapse", "phantom-signal")

LEARNING = (
    "learns", "learns_dr", "learns_rloo", "learns_kl", "learns_avspo", "off_policy", "few_prompts",
    "masters", "trl_learns", "trl_slow",
)  # fmt: skip
SHORT = ("learns", "learns_dr", "learns_rloo", "learns_kl", "off_policy", "few_prompts")
LONG = ("trl_learns", "trl_slow")
HARD = ("hard", "harder")
TIED = ("learns", "few_prompts", "masters", "solved")  # with tied groups among mixed ones
# What is true of a recording before anything is done to it: a quarter of the completions of TRL's
# runs are cut off, and runs that end well spend their last steps on what they have mastered.
SHOWN = {
    **dict.fromkeys(LONG, ("truncation-collapse",)),
    **dict.fromkeys(("few_prompts", "masters", "solved"), (COLLAPSE, RIGHT)),
}
ALL: tuple[Format, ...] = ("trl", "verl", "verl-v1", "generic")
KEYED: tuple[Format, ...] = ("verl-v1", "generic")  # the log names its groups
NAMED: tuple[Format, ...] = ("trl", "verl", "generic")  # the log has more than the reward
ADVANTAGES: tuple[Format, ...] = ("trl", "generic")  # the log has advantages


@dataclass(frozen=True)
class Kind:
    """One kind of run.

    Attributes
    ----------
    changes
        What is done, by phase, in this order.
    labels, accepts
        Rules that name a true cause, and rules that may speak besides.
    recordings, formats
        What it may be made from and written as: those in which the cause leaves a trace.
    """

    name: str
    changes: tuple[tuple[Phase, Change], ...]
    labels: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    recordings: tuple[str, ...] = LEARNING
    formats: tuple[Format, ...] = ALL

    @property
    def accepted(self) -> frozenset[str]:
        """The rules that may speak besides, those that follow from a collapse among them."""
        collapsed = COLLAPSE in (*self.labels, *self.accepts)
        return frozenset((*self.accepts, *(AFTER if collapsed else ()))) - set(self.labels)

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with such a run."""
        return not self.labels

    def with_(self, other: Kind) -> Kind:
        """Return the kind that has both causes, made from the recordings of the first.

        What one of them labels is a label of the pair.
        """
        labels = tuple(dict.fromkeys((*self.labels, *other.labels)))
        accepts = {*self.accepts, *other.accepts} - set(labels)
        return Kind(
            f"{self.name}+{other.name}",
            self.changes + other.changes,
            labels,
            tuple(sorted(accepts)),
            self.recordings,
            tuple(one for one in self.formats if one in other.formats),
        )


HEALTHY = (
    Kind("plain", ()),
    Kind("bare", (("log", log.show_less),)),
    Kind("rescaled", (("reward", rewards.rescale), ("log", log.show_less))),
    Kind("constant_format", (("reward", rewards.add_constant_format),), formats=NAMED),
    Kind("learnt_format", (("reward", rewards.add_learnt_format),), formats=NAMED),
    Kind("light_shaping", (("reward", rewards.shape_lightly),), formats=NAMED,
         recordings=("learns_rloo", "learns_avspo", "off_policy", "trl_learns", "trl_slow")),
    Kind("partial_credit", (("reward", rewards.partial_credit),), recordings=SHORT),
    Kind("any_order", (("log", log.any_order),), formats=KEYED),
    Kind("thinned", (("log", log.thin),)),
    Kind("few_lost", (("log", log.lose_few),), formats=KEYED),
    Kind("few_time_outs", (("grade", grading.time_out_rarely),)),
    Kind("whitened", (("advantage", trainer.whitened),), formats=ADVANTAGES),
    Kind("mastered", (), recordings=("masters", "few_prompts")),
)  # fmt: skip

SINGLE = (
    Kind("length_cap", (("sample", sampling.cap_length),), ("truncation-collapse", COLLAPSE), DEAD,
         recordings=(*LONG, *LONG, "learns_rloo", "few_prompts"), formats=NAMED),
    Kind("broken_parser", (("grade", grading.reject_all),), ("verifier-suspect", WRONG, COLLAPSE),
         recordings=("learns", "learns_rloo", "off_policy", "trl_learns")),
    Kind("parser_breaks", (("grade", grading.reject_later),), (WRONG, COLLAPSE),
         ("mastery-lost", "verifier-suspect"),
         recordings=("learns_dr", "learns_rloo", "learns_avspo", "off_policy", "trl_learns")),
    Kind("wrong_scale", (("reward", rewards.shrink),), (COLLAPSE,),
         # within the tolerance there is one level, and that is 0
         (*DIFFICULTY, "verifier-suspect", "phantom-advantage"),
         recordings=("learns", "learns_kl", "trl_learns")),
    Kind("too_hard", (), (WRONG, COLLAPSE), ("verifier-suspect",), recordings=HARD),
    Kind("too_easy", (("sample", sampling.keep_easy),), (RIGHT, COLLAPSE), recordings=("solved",)),
    Kind("two_piles", (("sample", sampling.polarise),), (COLLAPSE,), recordings=HARD),
    Kind("constant_format_dead", (("reward", rewards.add_constant_format),),
         ("format-saturated", COLLAPSE), DEAD, recordings=HARD, formats=NAMED),
    Kind("saturated_format_dead", (("reward", rewards.add_learnt_format),),
         ("format-saturated", COLLAPSE), DEAD, recordings=HARD, formats=NAMED),
    Kind("live_format_dead", (("reward", rewards.add_live_format),), ("component-collapse",),
         ("phantom-signal", "format-saturated", *DEAD, COLLAPSE), recordings=HARD, formats=NAMED),
    Kind("shaped_dead", (("reward", rewards.shape),), ("phantom-signal",),
         ("component-collapse", *DEAD, COLLAPSE), recordings=HARD, formats=NAMED),
    Kind("float_noise", (("reward", rewards.round_in_float32),
         ("advantage", trainer.float32_advantages)), ("phantom-advantage",), DIFFICULTY,
         recordings=("few_prompts", "masters", "solved"), formats=ADVANTAGES),
    Kind("float_twins", (("reward", rewards.twin), ("advantage", trainer.float32_advantages)),
         ("phantom-advantage",), DIFFICULTY, recordings=("few_prompts", "masters", "solved"),
         formats=ADVANTAGES),
    Kind("near_ties", (("reward", rewards.jitter),), ("near-tie-blow-up",),
         ("phantom-signal", "component-collapse"), recordings=TIED, formats=ADVANTAGES),
    Kind("divisor", (("advantage", trainer.leave_one_out_divisor),), ("impossible-advantage",),
         recordings=("learns", "learns_rloo", "off_policy", "few_prompts"), formats=ADVANTAGES),
    Kind("flat_batch", (("advantage", trainer.flat_batch),), ("broken-grouping",),
         ("phantom-advantage", "impossible-advantage"), formats=("generic",)),
    Kind("shuffled_ids", (("log", log.shuffle_ids),), ("broken-grouping",),
         ("phantom-advantage", "impossible-advantage", *DIFFICULTY, "filtered-log", "partial-log"),
         formats=KEYED),
    Kind("rank_fragments", (("log", log.split_ids),), ("broken-grouping",),
         (*DIFFICULTY, "filtered-log", "partial-log"), formats=KEYED,
         recordings=("learns", "learns_rloo", "learns_kl", "off_policy", "trl_learns")),
    Kind("merged_ids", (("log", log.merge_ids),), ("broken-grouping",),
         (*DIFFICULTY, "filtered-log", "partial-log"), formats=KEYED),
    Kind("single_ids", (("log", log.single_ids),), ("broken-grouping",), formats=KEYED),
    # groups of fewer scores tie more easily
    Kind("time_outs", (("grade", grading.time_out),), ("unscorable-rewards",), DIFFICULTY),
    Kind("rate_zero", (("optimise", trainer.show_scalars),), ("update-lost",),
         recordings=("still",)),
    Kind("frozen", (("optimise", trainer.freeze),), ("update-lost",), recordings=("still",)),
    Kind("copies", (("sample", sampling.copy_first),), ("duplicate-completions", COLLAPSE),
         # copies of a truncated completion are all truncated
         (WRONG, RIGHT, "verifier-suspect", "truncation-collapse"), recordings=("hard", *LONG)),
    Kind("filtered", (("log", log.drop_tied),), ("filtered-log",), recordings=TIED),
    Kind("refilled", (("log", log.drop_and_refill),), ("filtered-log",), recordings=TIED),
    Kind("kl_only", (("grade", grading.reject_all), ("optimise", trainer.show_scalars)),
         ("kl-only-gradient", COLLAPSE), (WRONG, "verifier-suspect"), recordings=("pulled",)),
    Kind("noisy_verifier", (("grade", grading.flip),), ("verifier-suspect",), recordings=SHORT),
    Kind("lost_answers", (("grade", grading.lose_answers),), ("mastery-lost",), DIFFICULTY,
         recordings=("few_prompts",)),
)  # fmt: skip

_BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in (*HEALTHY, *SINGLE)}

# Causes that do not hide each other.
_TOGETHER = (
    ("length_cap", "time_outs"),
    ("broken_parser", "time_outs"),
    ("too_hard", "time_outs"),
    ("copies", "time_outs"),
    ("near_ties", "time_outs"),
    ("divisor", "noisy_verifier"),
    ("noisy_verifier", "time_outs"),
    ("rate_zero", "noisy_verifier"),
    ("frozen", "time_outs"),
    ("frozen", "near_ties"),
    ("rate_zero", "near_ties"),
    ("lost_answers", "time_outs"),
    ("float_twins", "time_outs"),
    ("shuffled_ids", "time_outs"),
)
PAIRS = tuple(_BY_NAME[one].with_(_BY_NAME[other]) for one, other in _TOGETHER)
KINDS = (*SINGLE, *HEALTHY, *PAIRS)

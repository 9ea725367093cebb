"""What is true of a batch of rollouts?

Every measure has a batch form (a function), and statistics with ``of``, ``+`` and a value, which
`Stream` grows batch by batch and merges over ranks.
"""

from buttress.measures.collapse import CollapseCounts, collapse_rate
from buttress.measures.components import ComponentCounts, collapse_rate_by_reward, reward_names
from buttress.measures.composition import Composition, GroupCounts, composition
from buttress.measures.differences import Difference, paired_difference, rate_difference
from buttress.measures.difficulty import Difficulty
from buttress.measures.duplicates import DuplicateCounts, distinct_completions, duplicates
from buttress.measures.expectation import Expected, expected_ties, tie_chances
from buttress.measures.intervals import (
    bounded_mean_interval,
    clustered_rate_interval,
    wilson_interval,
)
from buttress.measures.levels import KINDS, Levels, kinds
from buttress.measures.pass_at_k import pass_at_k
from buttress.measures.prompts import PromptCounts, PromptTable, prompt_counts, success_column
from buttress.measures.signal import SignalCounts, signal
from buttress.measures.spread import SpreadSums, spread
from buttress.measures.statistics import Stream
from buttress.measures.steps import StepTable, by_step
from buttress.measures.summary import GroupSummary
from buttress.measures.tables import KeyedCounts, ValueCounts
from buttress.measures.tail_miss import active_rate, tail_miss_rate

__all__ = [
    "KINDS",
    "CollapseCounts",
    "ComponentCounts",
    "Composition",
    "Difference",
    "Difficulty",
    "DuplicateCounts",
    "Expected",
    "GroupCounts",
    "GroupSummary",
    "KeyedCounts",
    "Levels",
    "PromptCounts",
    "PromptTable",
    "SignalCounts",
    "SpreadSums",
    "StepTable",
    "Stream",
    "ValueCounts",
    "active_rate",
    "bounded_mean_interval",
    "by_step",
    "clustered_rate_interval",
    "collapse_rate",
    "collapse_rate_by_reward",
    "composition",
    "distinct_completions",
    "duplicates",
    "expected_ties",
    "kinds",
    "paired_difference",
    "pass_at_k",
    "prompt_counts",
    "rate_difference",
    "reward_names",
    "signal",
    "spread",
    "success_column",
    "tail_miss_rate",
    "tie_chances",
    "wilson_interval",
]

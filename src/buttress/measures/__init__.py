"""What is true of a batch of rollouts?

Every measure has a batch form (a function), and statistics with ``of``, ``+`` and a value, which
`Stream` grows batch by batch and merges over ranks.
"""

from buttress.measures.collapse import CollapseCounts, collapse_rate
from buttress.measures.components import ComponentCounts, collapse_rate_by_reward, reward_names
from buttress.measures.composition import (
    KINDS,
    Composition,
    GroupCounts,
    Levels,
    composition,
    kinds,
)
from buttress.measures.duplicates import DuplicateCounts, distinct_completions, duplicates
from buttress.measures.intervals import clustered_rate_interval, wilson_interval
from buttress.measures.prompts import PromptCounts, PromptTable, prompt_counts, success_column
from buttress.measures.signal import SignalCounts, signal
from buttress.measures.spread import SpreadSums, spread
from buttress.measures.statistics import Stream
from buttress.measures.steps import StepTable, by_step
from buttress.measures.summary import GroupSummary

__all__ = [
    "KINDS",
    "CollapseCounts",
    "ComponentCounts",
    "Composition",
    "DuplicateCounts",
    "GroupCounts",
    "GroupSummary",
    "Levels",
    "PromptCounts",
    "PromptTable",
    "SignalCounts",
    "SpreadSums",
    "StepTable",
    "Stream",
    "by_step",
    "clustered_rate_interval",
    "collapse_rate",
    "collapse_rate_by_reward",
    "composition",
    "distinct_completions",
    "duplicates",
    "kinds",
    "prompt_counts",
    "reward_names",
    "signal",
    "spread",
    "success_column",
    "wilson_interval",
]

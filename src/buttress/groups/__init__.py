"""What is a batch of rollouts?"""

from buttress.groups.check import GroupingProblem, check_grouping
from buttress.groups.groups import Groups
from buttress.groups.run import LogFacts, Problem, Run, Scalar, Source, Text
from buttress.groups.tolerance import DEFAULT_TOLERANCE, Tolerance

__all__ = [
    "DEFAULT_TOLERANCE",
    "GroupingProblem",
    "Groups",
    "LogFacts",
    "Problem",
    "Run",
    "Scalar",
    "Source",
    "Text",
    "Tolerance",
    "check_grouping",
]

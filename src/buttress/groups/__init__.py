"""What is a batch of rollouts?"""

from buttress.groups.groups import Groups
from buttress.groups.run import LogFacts, Problem, Run, Scalar, Source, Text
from buttress.groups.tolerance import DEFAULT_TOLERANCE, Tolerance

__all__ = ["DEFAULT_TOLERANCE", "Groups", "LogFacts", "Problem", "Run", "Scalar", "Source", "Text", "Tolerance"]

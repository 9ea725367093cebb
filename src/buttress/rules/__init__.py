"""Is it bad, and why?"""

# importing a family enters its rules into the book
from buttress.rules import (  # noqa: F401
    collapse,
    components,
    forecast,
    grouping,
    log,
    numerics,
    optimiser,
    prompts,
    resampling,
    scoring,
    texts,
    truncation,
)
from buttress.rules.case import Case
from buttress.rules.engine import Verdict, examine, verdict
from buttress.rules.finding import Advice, Finding, Severity
from buttress.rules.rule import RULES, Rule, find_rules

__all__ = [
    "RULES",
    "Advice",
    "Case",
    "Finding",
    "Rule",
    "Severity",
    "Verdict",
    "examine",
    "find_rules",
    "verdict",
]

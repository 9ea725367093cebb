"""Is it bad, and why?"""

from buttress.rules import collapse as _collapse  # noqa: F401  entering the book of rules
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

"""The book of rules: names, pages, order, selection, verdict."""

import inspect
import re

import pytest

from buttress.errors import UsageError
from buttress.groups import Groups, Run
from buttress.remedies import remedies
from buttress.rules import (
    RULES,
    Advice,
    Case,
    components,
    examine,
    find_rules,
    grouping,
    log,
    numerics,
    optimiser,
    prompts,
    resampling,
    scoring,
    texts,
    verdict,
)
from buttress.rules import advice as shared
from tests.rules.runs import HEALTHY, findings, names, scalars

HEADINGS = [
    "What it sees",
    "Why it matters",
    "How sure",
    "What to do",
    "When to ignore",
    "References",
]
# Contract names that this book holds.
FIXED = {
    "advantage-collapse",
    "all-wrong-collapse",
    "all-correct-collapse",
    "truncation-collapse",
    "component-collapse",
    "format-saturated",
    "phantom-signal",
    "phantom-advantage",
    "near-tie-blow-up",
    "impossible-advantage",
    "broken-grouping",
    "unscorable-rewards",
    "filtered-log",
    "update-lost",
    "loss-zero-normal",
    "kl-only-gradient",
    "diluted-loss",
    "group-size-floor",
    "duplicate-completions",
    "verifier-suspect",
    "mastery-lost",
    "partial-log",
    "resampling-stall",
    "early-forecast",
}
FAMILIES = (
    shared,
    components,
    grouping,
    log,
    numerics,
    optimiser,
    prompts,
    resampling,
    scoring,
    texts,
)
ADVICE = [one for family in FAMILIES for one in vars(family).values() if isinstance(one, Advice)]


def test_every_name_is_there():
    assert set(RULES) == FIXED


def test_codes_are_unique_and_shaped():
    codes = [rule.code for rule in RULES.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"BT\d{3}", code) for code in codes)


def test_explained_rules_exist():
    assert {effect for rule in RULES.values() for effect in rule.explains} <= set(RULES)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_page_has_all_headings_in_order(name):
    page = RULES[name].page
    headings = [line for line in page.splitlines()[1:] if line and not line.startswith(" ")]
    assert headings == HEADINGS
    assert RULES[name].title.endswith(".")
    for heading in HEADINGS:
        text = page.split(f"\n{heading}\n", 1)[1]
        assert text.startswith("    "), f"{name}: {heading} is empty"


def test_advice_is_complete_and_names_what_exists():
    known = {remedy.name for remedy in remedies()} | {"correct", "problems"}
    for one in ADVICE:
        assert all(one), one
        for name in re.findall(r"`([^`]+)`", " ".join(one)):
            assert name in known or name.startswith("buttress "), name


def test_no_line_is_drawn_outside_the_thresholds():
    """Rules compare with names; numbers beside 0, 1 and a half belong into one file."""
    for rule in RULES.values():
        source = inspect.getsource(inspect.unwrap(rule.check.__closure__[0].cell_contents))
        code = source.split('"""')[2]
        compared = re.findall(r"[<>]=? (\d+\.?\d*)", code)
        assert set(compared) <= {"0", "1", "0.5", "2", "3"}, rule.name


def test_causes_stand_before_consequences():
    truncated = Groups.from_dense([[0.0] * 8] * 8, truncated=[[True] * 8] * 8)
    order = names(truncated)
    assert order.index("truncation-collapse") < order.index("advantage-collapse")


def test_select_and_ignore():
    dead = Groups.from_dense([[0.0] * 8] * 8)
    case = Case(Run(dead))
    assert [one.rule for one in examine(case, select=["BT101"])] == ["advantage-collapse"]
    assert "advantage-collapse" not in [one.rule for one in examine(case, ignore=["BT1"])]
    with pytest.raises(UsageError, match="advantage-collapse"):
        find_rules(["advantage-colapse"])


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(Groups.from_nested([])), "undefined"),
        (Run(Groups.from_nested([]), scalars(loss=[0.1] * 5)), "undefined"),
        (Run(Groups.from_nested([]), scalars(frac_reward_zero_std=[0.1] * 5)), "healthy"),
        (Run(Groups.from_nested([]), scalars(frac_reward_zero_std=[0.6] * 5)), "attention"),
        (Run(Groups.from_nested([[0, 1], [1, 0]])), "healthy"),
        (Run(Groups.from_nested([[0, 0], [1, 1]])), "collapsed"),
        (Run(Groups.from_nested([[None, 1], [None]])), "undefined"),
    ],
)
def test_verdict(run, expected):
    case = Case(run)
    assert verdict(case, examine(case)) == expected


def test_evidence_is_plain_and_findings_carry_steps():
    dead = Run(Groups.from_dense([[0.0] * 8] * 64, step=list(range(64))))
    for one in findings(dead):
        assert one.steps is not None
        for value in one.evidence.values():
            assert isinstance(value, int | float | str | list | None), (one.rule, value)


def test_healthy_runs_are_many():
    assert len(HEALTHY) >= 10

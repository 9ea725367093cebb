"""No false alarm: on healthy runs of every kind each rule is silent above info."""

import pytest

from buttress.rules import Case, Severity, examine, verdict
from tests.rules.runs import HEALTHY


@pytest.mark.parametrize("kind", sorted(HEALTHY))
def test_silent_above_info(kind):
    case = Case(HEALTHY[kind]())
    found = examine(case)
    assert [one for one in found if one.severity > Severity.INFO] == []
    assert verdict(case, found) == "healthy"


# what an info may say about a healthy run, and must
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("early", set()),
        ("negative rewards", set()),
        ("ragged", set()),
        ("dr_grpo", set()),
        ("dr_grpo, large rewards", set()),
        ("dr_grpo, small rewards", set()),
        ("rloo", set()),
        ("batch scaled", set()),
        ("constant format bonus", set()),
        ("off policy", set()),
        ("reward model", set()),
        ("one group a step", set()),
        ("one-token answers", set()),
        ("hard start", set()),
        ("large groups", set()),
        ("mastered", {"advantage-collapse", "all-correct-collapse"}),
        ("partial credit", {"component-collapse", "phantom-signal"}),
        ("length penalty", {"phantom-signal"}),
        ("scalars only", {"loss-zero-normal"}),
        ("avspo", {"phantom-advantage"}),
        ("whitened", {"phantom-advantage"}),
        ("float32 noise", {"phantom-advantage"}),
        ("few nulls", {"unscorable-rewards"}),
        ("thinned log", {"partial-log"}),
    ],
)
def test_infos_of_a_healthy_run(kind, expected):
    assert {one.rule for one in examine(Case(HEALTHY[kind]()))} == expected

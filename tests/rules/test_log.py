import numpy as np

from buttress.groups import Groups, LogFacts, Run
from buttress.rules import Severity
from buttress.rules.log import repeated_groups
from tests.rules.runs import binary, names, of, steps_of, the

RULE = "partial-log"
ALIVE = np.tile([0.0, 1.0], (100, 4))


def test_what_the_reader_knows():
    facts = LogFacts(logged_every=2, repeated=32, unreadable=3)
    found = of(Run(Groups.from_dense(ALIVE, step=steps_of(100, 10)), facts=facts), RULE)
    assert [one.severity for one in found] == [Severity.INFO] * 3
    assert [next(iter(one.evidence)) for one in found] == ["logged_every", "repeated", "unreadable"]


def test_many_unreadable_rows_are_a_warning():
    found = the(Run(Groups.from_dense(ALIVE), facts=LogFacts(unreadable=100)), RULE)
    assert found.severity is Severity.WARNING


def test_nothing_but_unreadable_rows():
    found = the(Run(Groups.from_nested([]), facts=LogFacts(unreadable=5)), RULE)
    assert found.evidence["share"] == 1
    assert found.steps is None


def test_short_groups():
    short = Groups.from_nested([[0.0, 1, 0, 1]] * 40 + [[0.0, 1, 1]] * 8)
    assert the(short, RULE).severity is Severity.INFO
    found = the(Run(short, facts=LogFacts(group_size=4)), RULE)
    assert found.severity is Severity.WARNING
    assert found.evidence["missing_rollouts"] == 8


def test_ragged_groups_have_no_usual_size():
    sizes = np.random.default_rng(0).integers(3, 9, 100)
    assert RULE not in names(Groups.from_nested([([0.0, 1] * 5)[:n] for n in sizes]))


def test_gaps_in_the_steps():
    step = np.repeat([1, 2, 3, 7, 8, 9, 10, 15, 16, 17], 10)
    found = the(Groups.from_dense(ALIVE, step=step), RULE)
    assert found.evidence["missing_steps"] == 7
    # every tenth step is a habit, not a gap
    assert RULE not in names(Groups.from_dense(ALIVE, step=10 * steps_of(100, 10)))


def test_repeated_generations():
    rng = np.random.default_rng(1)
    outcome = binary(rng, np.full(50, 0.5))
    codes = rng.integers(1, 2**60, (50, 8))
    twice = Groups.from_dense(
        np.tile(outcome, (2, 1)),
        completion=np.tile(codes, (2, 1)),
        step=np.repeat([1, 2], 50),
        prompt_id=[*range(50)] * 2,
    )
    assert repeated_groups(twice).sum() == 50
    assert the(twice, RULE).severity is Severity.INFO
    once = twice.select(np.arange(50))
    assert RULE not in names(once)


def test_repetition_is_of_sets_within_a_prompt():
    codes = np.array([[1, 2, 3, 4], [4, 3, 2, 1], [1, 2, 3, 4], [1, 1, 2, 2], [1, 1, 2, 2]])
    groups = Groups.from_dense(
        np.zeros((5, 4)), completion=codes, prompt_id=["a", "a", "b", "a", "a"]
    )
    assert repeated_groups(groups).tolist() == [False, True, False, False, False]


def test_short_answers_recur():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, (400, 8))
    groups = Groups.from_dense(np.tile([0.0, 1.0], (400, 4)), completion=codes)
    assert RULE not in names(groups)

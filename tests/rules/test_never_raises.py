"""Odd input gives no finding, never an exception and never a warning of NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress.groups import Groups, LogFacts, Run, Scalar
from buttress.rules import Case, Severity, examine, verdict

NUMBERS = st.one_of(
    st.sampled_from(
        [0.0, 1.0, -1.0, 0.5, 0.1, 0.7, 1e-7, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324]
    ),
    st.none(),
    st.floats(),
)
TEXTS = [st.integers(0, 3), st.sampled_from("ab"), st.sampled_from(["a", None])]
PROMPTS = st.sampled_from(["a", "b", None])
LENGTHS = st.none() | st.integers(0, 10**6)
COLUMNS = ("correct", "advantage", "truncated", "reward/format", "reward/accuracy")
SCALARS = (
    "loss",
    "grad_norm",
    "kl",
    "learning_rate",
    "reward_std",
    "frac_reward_zero_std",
    "completions/clipped_ratio",
    "rewards/accuracy_reward/mean",
    "rewards/accuracy_reward/std",
)


@st.composite
def runs(draw) -> Run:
    sizes = draw(st.lists(st.integers(0, 6), max_size=12))
    few = draw(st.lists(NUMBERS, min_size=1, max_size=3))
    values = draw(st.sampled_from([NUMBERS, st.sampled_from(few)]))

    def nested(value):
        return [draw(st.lists(value, min_size=n, max_size=n)) for n in sizes]

    columns = {name: nested(values) for name in draw(st.sets(st.sampled_from(COLUMNS)))}
    if draw(st.booleans()):
        columns["completion"] = nested(draw(st.sampled_from(TEXTS)))
    if draw(st.booleans()):
        columns["length"] = nested(LENGTHS)
    if draw(st.booleans()):
        columns["sample"] = nested(st.integers(-1, 3))
    n = len(sizes)
    groups = Groups.from_nested(
        nested(values),
        step=draw(st.lists(st.integers(0, 8), min_size=n, max_size=n)) if n else 0,
        prompt_id=draw(st.none() | st.lists(PROMPTS, min_size=n, max_size=n)),
        **columns,
    )
    return Run(groups, draw(scalars()), facts=draw(facts()))


@st.composite
def scalars(draw) -> dict[str, Scalar]:
    found = {}
    for name in draw(st.sets(st.sampled_from(SCALARS))):
        values = draw(st.lists(st.floats(), max_size=6))
        found[name] = Scalar(np.arange(len(values)), np.array(values, dtype=np.float64))
    return found


def facts():
    return st.builds(
        LogFacts,
        grouped_by=st.sampled_from([None, "key", "prompt", "position"]),
        group_size=st.sampled_from([None, 1, 4]),
        groups_per_step=st.sampled_from([None, 1, 8]),
        logged_every=st.sampled_from([None, 1, 2]),
        repeated=st.integers(0, 2),
        unreadable=st.integers(0, 2),
        filtered=st.booleans(),
    )


@settings(max_examples=200, deadline=None)
@given(runs())
def test_random_runs(run):
    case = Case(run)
    found = examine(case)
    assert verdict(case, found) in ("healthy", "attention", "collapsed", "undefined")
    for one in found:
        assert one.message
        assert isinstance(one.severity, Severity)
        assert one.steps is None or one.steps[0] <= one.steps[1]


def test_empty_and_bare():
    for groups in (
        Groups.from_nested([]),
        Groups.from_nested([[]]),
        Groups.from_nested([[], [], [1.0]]),
        Groups.from_dense(np.zeros((0, 8))),
        Groups.from_dense(np.zeros((3, 0))),
    ):
        case = Case(Run(groups))
        assert verdict(case, examine(case)) == "undefined"

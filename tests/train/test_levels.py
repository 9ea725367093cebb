"""Difficulty levels: each rate has one, edges belong above, samples do not depend on order."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.train.selection.levels import BANDS, check_bands, level_of, sample_of, unreachable

counts = st.integers(1, 300).flatmap(lambda tries: st.tuples(st.integers(0, tries), st.just(tries)))


@given(counts)
def test_bands_leave_no_gap_and_do_not_overlap(pair):
    successes, tries = pair
    rate = Fraction(successes, tries)
    edges = [Fraction(str(edge)) for edge in BANDS]
    held = [
        level
        for level, (low, high) in enumerate(
            zip([*edges, Fraction(0)], [Fraction(2), *edges], strict=True)
        )
        if low <= rate < high
    ]
    assert [level_of(successes, tries)] == held


@given(counts, counts)
def test_a_higher_rate_never_has_a_higher_level(one, other):
    lower, higher = sorted([one, other], key=lambda pair: Fraction(*pair))
    assert level_of(*higher) <= level_of(*lower)


@pytest.mark.parametrize(
    ("successes", "tries", "level"),
    [(19, 20, 0), (4, 5, 1), (1, 2, 2), (3, 10, 3), (1, 10, 4), (1, 100, 5), (0, 100, 6)],
)
def test_an_edge_belongs_to_the_level_above_it(successes, tries, level):
    assert level_of(successes, tries) == level


def test_nothing_tried_has_no_level():
    assert level_of(0, 0) is None


@given(st.integers(1, 200))
def test_levels_out_of_reach_are_those_that_no_count_has(tries):
    reached = {level_of(successes, tries) for successes in range(tries + 1)}
    assert reached | set(unreachable(tries)) == set(range(7))
    assert not reached & set(unreachable(tries))


@pytest.mark.parametrize("bands", [[], [0.5, 0.5], [0.3, 0.5], [1.5], [0.5, 0.0]])
def test_bands_have_to_descend(bands):
    with pytest.raises(UsageError, match="bands"):
        check_bands(bands)


def test_bands_can_be_chosen():
    assert [level_of(successes, 4, (0.75, 0.25)) for successes in range(5)] == [2, 1, 1, 0, 0]


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 40))
def test_a_sample_depends_on_seed_and_names_alone(seed, size, larger):
    names = [f"p{number}" for number in range(50)]
    shuffled = random.Random(seed).sample(names, len(names))
    chosen = {names[place] for place in sample_of(names, size, seed)}
    assert chosen == {shuffled[place] for place in sample_of(shuffled, size, seed)}
    assert len(chosen) == size
    if larger >= size:
        assert chosen <= {names[place] for place in sample_of(names, larger, seed)}


def test_samples_are_spread_evenly():
    names = [f"p{number}" for number in range(20)]
    drawn = [0] * 20
    for seed in range(2000):
        for place in sample_of(names, 5, seed):
            drawn[place] += 1
    # 500 expected, standard deviation 19.4
    assert min(drawn) > 415
    assert max(drawn) < 585


def test_a_sample_of_few_is_all_of_them():
    assert sample_of(["a", "b"], 5, 0) == [0, 1]
    assert sample_of(["a", "b"], None, 0) == [0, 1]
    with pytest.raises(UsageError, match="1 or more"):
        sample_of(["a"], 0, 0)

"""Generation batches: simulation, closed forms, the case from the field."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import UsageError
from buttress.measures.resampling import batches_needed, stall_chance


def test_a13():
    assert batches_needed(3, 48, needed=32, batch=48).value == 11


@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 64), st.integers(1, 64))
def test_the_interval_holds_the_value(live, tied, needed, batch):
    value, low, high = batches_needed(live, live + tied, needed, batch)
    assert 1 <= low <= value <= high


def test_without_any_live_group_there_is_no_end():
    value, low, high = batches_needed(0, 48, 32, 48)
    assert (value, high) == (inf, inf)
    assert 1 < low < inf


@pytest.mark.parametrize(("live", "updates"), [(3, 1), (3, 10), (6, 10), (2, 1)])
def test_chance_by_simulation(live, updates):
    rng = np.random.default_rng(0)
    q = rng.beta(live + 0.5, 48 - live + 0.5, 40_000)
    found = rng.binomial(48 * 10, q[:, None], (len(q), updates))
    simulated = (found < 32).any(axis=1).mean()
    assert stall_chance(live, 48, 32, 48, 10, updates=updates) == pytest.approx(simulated, abs=0.01)


@given(st.integers(0, 48), st.integers(1, 9))
def test_a_higher_limit_never_hurts(live, limit):
    first, second = (stall_chance(live, 48, 32, 48, one) for one in (limit, limit + 1))
    assert second <= first + 1e-12
    assert 0 <= second <= 1


@pytest.mark.parametrize("given_", [(5, 4, 1, 1), (1, 0, 1, 1), (1, 2, 0, 1), (1, 2, 1, -1)])
def test_bad_numbers_are_refused(given_):
    with pytest.raises(UsageError, match="between 0 and seen"):
        batches_needed(*given_)
    with pytest.raises(UsageError, match="limit"):
        stall_chance(1, 2, 1, 1, 0)

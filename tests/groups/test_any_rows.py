"""What holds of groups from any rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from buttress import Groups
from tests.groups.reading import as_lists

ids = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", ("a", 1)]), st.booleans())
rows = st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), ids), max_size=40)


def contents(groups):
    """The multiset of groups, each a multiset of rewards."""
    return sorted(sorted(part) for part in as_lists(groups))


@given(rows=rows, seed=st.integers(0, 99), by_step=st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_permutation_of_the_rows_gives_the_same_groups(rows, seed, by_step):
    rewards, labels = [row[0] for row in rows], [row[1] for row in rows]
    steps = [hash(label) % 2 + int(r > 0) * by_step for r, label in rows]
    groups = Groups.from_flat(rewards, labels, step=steps)
    shuffle = np.random.default_rng(seed).permutation(len(rows))
    again = Groups.from_flat(
        [rewards[i] for i in shuffle],
        [labels[i] for i in shuffle],
        step=[steps[i] for i in shuffle],
        row=shuffle,
    )
    assert contents(again) == contents(groups)
    # every sample still is the row that it came from
    assert again.columns["row"].tolist() == shuffle[again.order].tolist()
    np.testing.assert_array_equal(again.rewards, np.array(rewards)[again.columns["row"]])


@given(rows=rows)
@settings(max_examples=200, deadline=None)
def test_flat_groups_are_what_a_dictionary_gives(rows):
    expected = {}
    for place, (_, label) in enumerate(rows):
        expected.setdefault(label, []).append(place)
    groups = Groups.from_flat([row[0] for row in rows], [row[1] for row in rows])
    assert groups.order.tolist() == [row for members in expected.values() for row in members]
    assert groups.sizes.tolist() == [len(members) for members in expected.values()]
    assert groups.group_id.tolist() == list(expected)
    assert groups.group_of.tolist() == np.repeat(range(len(expected)), groups.sizes).tolist()


@given(
    st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 5), max_size=60),
    st.sampled_from([np.int64, object]),
)
@settings(max_examples=200, deadline=None)
def test_numbers_and_objects_are_coded_alike(labels, dtype):
    groups = Groups.from_flat(np.zeros(len(labels)), np.array(labels, dtype=dtype))
    distinct = list(dict.fromkeys(labels))
    assert groups.group_id.tolist() == distinct
    assert groups.sizes.tolist() == [labels.count(label) for label in distinct]

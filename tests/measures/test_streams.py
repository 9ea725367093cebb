"""Every statistics class: one batch == a stream of batches == a merge of streams."""

import dataclasses
import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress.measures
from buttress import Groups, Tolerance
from buttress.errors import UsageError
from buttress.measures import KeyedCounts, PromptTable, Stream, ValueCounts
from tests.measures.batches import batches, same


def discover():
    """All classes of the room that are built from groups and add up."""
    found = set()
    for module in pkgutil.iter_modules(buttress.measures.__path__, "buttress.measures."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = one.__module__.startswith("buttress.measures")
            adds = "of" in dir(one) and hasattr(one, "__add__") and not issubclass(one, tuple)
            if own and adds and not getattr(one, "_is_protocol", False):
                found.add(one)
    return sorted(found, key=lambda one: one.__name__)


STATISTICS = discover()
every = pytest.mark.parametrize("kind", STATISTICS, ids=lambda kind: kind.__name__)


def test_discovery_finds_them():
    names = {kind.__name__ for kind in STATISTICS}
    assert names >= {
        "CollapseCounts",
        "ComponentCounts",
        "Composition",
        "DuplicateCounts",
        "PromptCounts",
        "SignalCounts",
        "SpreadSums",
    }


def joined(parts):
    """One batch of all groups; a column that a part lacks is unknown there."""
    names = dict.fromkeys(name for part in parts for name in part.columns if name != "prompt")
    rewards, ids, steps, columns = [], [], [], {name: [] for name in names}
    for part in parts:
        cuts = list(zip(part.offsets[:-1], part.offsets[1:], strict=True))
        rewards += [part.values[a:b].tolist() for a, b in cuts]
        ids += part.prompt_id.tolist()
        steps += part.step.tolist()
        for name, rows in columns.items():
            held = part.columns.get(name)
            rows += [[None] * (b - a) if held is None else held[a:b].tolist() for a, b in cuts]
    return Groups.from_nested(rewards, prompt_id=ids, step=steps, **columns)


def reading(statistics):
    """Everything that the statistics say: fields, properties and methods without arguments."""
    said = {}
    for name in dir(type(statistics)) + list(getattr(statistics, "__dict__", ())):
        if name.startswith("_") or name in ("of", "of_summary"):
            continue
        value = getattr(statistics, name)
        if callable(value):
            needed = inspect.signature(value).parameters.values()
            if any(one.default is one.empty for one in needed):
                continue
            value = value()
        said[name] = plain(value)
    return said


def plain(value):
    if isinstance(value, Tolerance):
        return dataclasses.astuple(value)
    if isinstance(value, ValueCounts):
        total = {}
        for one, number in zip(value.values.tolist(), value.numbers.tolist(), strict=True):
            total[one] = total.get(one, 0) + number
        return total
    if isinstance(value, PromptTable):
        rows = zip(*(column.tolist() for column in value), strict=True)
        return {row[0]: row[1:] for row in rows}
    if isinstance(value, KeyedCounts | dict):
        return {key: plain(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


@every
@given(parts=st.lists(batches(max_groups=5), max_size=4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_batch_stream_and_merge_agree(kind, parts, data):
    whole = reading(kind.of(joined(parts)))
    assert len(whole) >= 2
    cut = data.draw(st.integers(0, len(parts)))
    stream, left, right = Stream(kind), Stream(kind), Stream(kind)
    for place, part in enumerate(parts):
        stream.update(part)
        (left if place < cut else right).update(part)
    assert same(reading(stream.total), whole)
    left_total = left.total
    before = reading(left_total)
    left.merge(right)
    assert same(reading(left.total), whole)
    assert same(reading(left_total), before)  # adding changes neither side
    right.merge(Stream(kind))
    assert same(reading(right.total + left_total), whole)


@every
def test_statistics_travel_between_ranks(kind):
    groups = Groups.from_nested(
        [[1, 1], [0, 1]], prompt_id=["a", None], correct=[[1, 1], [0, 1]], length=[[3, 4], [5, 6]]
    )
    ours = kind.of(groups)
    theirs = pickle.loads(pickle.dumps(ours))
    assert same(reading(ours + theirs), reading(kind.of(joined([groups, groups]))))


@every
def test_a_stream_takes_its_tolerance_to_every_batch(kind):
    groups = Groups.from_nested([[0, 0.4], [0.1, 0.2]], prompt_id=["a", "b"])
    loose = Tolerance(atol=0.5)
    stream = Stream(kind, loose)
    stream.update(groups)
    assert same(reading(stream.total), reading(kind.of(groups, loose)))
    with pytest.raises(UsageError, match="cannot merge"):
        stream.merge(Stream(kind))


def test_prompts_that_only_look_alike_as_text_count_together():
    groups = Groups.from_nested([[1, 1], [1, 1], [0, 1]], prompt_id=[1, "1", "2"])
    by_prompt = buttress.measures.CollapseCounts.of(groups).by_prompt
    assert {name: row.tolist() for name, row in by_prompt.items()} == {"1": [2, 2], "2": [0, 1]}
    assert len(by_prompt) == 2
    assert "1" in by_prompt
    assert "3" not in by_prompt


def test_prompts_without_groups_are_left_out():
    groups = Groups.from_nested([[1, 1], [0, 1]], prompt_id=["a", "b"]).select([1])
    assert list(buttress.measures.CollapseCounts.of(groups).by_prompt) == ["b"]
    assert buttress.measures.prompt_counts(groups).prompt_id.tolist() == ["b"]

"""Real files with one value replaced by something else: a wrong type, or lists without end."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import ButtressError

DATA = Path(__file__).parent / "data"
LARGEST = 64 << 10
EXAMPLES = int(os.environ.get("BUTTRESS_FUZZ", "4"))
FILES = sorted(
    path.relative_to(DATA)
    for path in DATA.rglob("*.json*")
    if path.suffix in (".json", ".jsonl")
    and path.stat().st_size < LARGEST
    and "fuzz" not in path.parts
)


def nested(depth, kind):
    """Return lists, objects or chat messages of a depth that some parsers take."""
    opens, core, closes = {
        "list": ("[", "", "]"),
        "object": ('{"a":', "1", "}"),
        "message": ('[{"role":"user","content":', '"x"', "}]"),
    }[kind]
    return opens * depth + core + closes * depth


DEPTHS = st.sampled_from([100, 240, 480, 700, 900, 960, 985, 992, 997, 1002, 5000])
KINDS = st.sampled_from(["list", "object", "message"])
WRONG = [
    "null", "true", "0", "-1", "0.5", "1e400", "NaN", "1" + "0" * 400, '""', '"x"', "[]", "{}",
    "[[]]", "[null]", '["x", 1]', '[{"content": 5}]', '{"a": [1]}', '{"content": {}}', '"\\ud800"',
]  # fmt: skip
VALUES = st.sampled_from(WRONG) | st.builds(nested, DEPTHS, KINDS)


def places(value, at=()):
    """Yield where values stand in decoded JSON; of long lists the first few."""
    yield at
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*at, name))
    elif isinstance(value, list):
        for index in range(min(len(value), 3)):
            yield from places(value[index], (*at, index))


def replaced(value, at, mark):
    if not at:
        return mark
    first, rest = at[0], at[1:]
    if isinstance(value, dict):
        return value | {first: replaced(value[first], rest, mark)}
    return [replaced(one, rest, mark) if index == first else one for index, one in enumerate(value)]


def spoiled(path, data):
    """Return the bytes of a file with one value replaced."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True) if path.suffix == ".jsonl" else [text]
    at = data.draw(st.integers(0, min(len(lines), 4) - 1))
    row = json.loads(lines[at])
    place = data.draw(st.sampled_from(list(places(row))))
    mark = "a mark that no file holds"
    found = json.dumps(replaced(row, place, mark)).replace(f'"{mark}"', data.draw(VALUES))
    return "".join([*lines[:at], found + "\n", *lines[at + 1 :]]).encode()


def read(path):
    """Do everything that `diagnose` does with a file."""
    try:
        run = bt.read(path)
        if run.texts is not None:
            run.texts(range(run.groups.n_samples))
        bt.diagnose(run).to_json()
    except ButtressError:
        pass


@pytest.mark.parametrize("name", FILES, ids=str)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_any_place(name, data):
    found = spoiled(DATA / name, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(found)
        read(path)

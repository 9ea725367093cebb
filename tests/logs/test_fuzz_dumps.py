"""Whatever the bytes of a framework's dump: a run with problems, or an error on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.logs import dumps
from tests.logs.test_fuzz import VALUES, read_bytes
from tests.logs.writing import jsonl

DATA = Path(__file__).parent / "data"
ROWS = {
    "nemo-rl": [dumps.nemo_row(0, at, at % 2) for at in range(4)],
    "areal": [dumps.areal_row(0, at, at % 2) for at in range(4)],
    "skyrl": [dumps.skyrl_row(0, at, at % 2) for at in range(4)],
    "verifiers": [dumps.result_row(0, at, at % 2) for at in range(4)],
}
EPISODES = (DATA / "verifiers_eval" / "traces.jsonl").read_bytes()
SEEDS = {
    **{(name, ".jsonl"): jsonl(rows) for name, rows in ROWS.items()},
    ("verifiers", ".jsonl.gz"): EPISODES,
    ("prime-rl", ".jsonl"): EPISODES,
    ("inspect_ai", ".eval"): (DATA / "inspect_ai" / "sums.eval").read_bytes(),
    ("inspect_ai", ".json"): (DATA / "inspect_ai" / "sums.json").read_bytes(),
}
quick = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize("seed", SEEDS, ids="".join)
@quick
@given(data=st.data())
def test_mutated_bytes(seed, data):
    name, suffix = seed
    mutated = bytearray(SEEDS[seed])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    read_bytes(bytes(mutated), suffix, format=name)


@pytest.mark.parametrize("name", ROWS)
@quick
@given(data=st.data())
def test_columns_of_anything(name, data):
    rows = [dict(row) for row in ROWS[name]]
    for row in rows:
        for column in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=3)):
            row[column] = data.draw(VALUES)
    run = read_bytes(jsonl(rows), format=name)
    assert run is None or run.groups.n_samples + run.facts.unreadable <= len(rows) + len(
        run.problems
    )

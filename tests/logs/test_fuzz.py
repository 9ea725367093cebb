"""Whatever the bytes: a run, or an error on purpose; the sound lines are always read."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.errors import ButtressError
from buttress.logs import files
from tests.logs.writing import jsonl, rollouts, verl_row

METRICS = [{"step": step, "loss": 0.5, "kl": None} for step in range(4)]
VERL = [verl_row("p", str(at), at % 2, uid=f"u_{at}_0", acc=at % 2 == 1) for at in range(8)]
LOGGED = [{"step": step, "data": {"actor/lr": 0.1}} for step in range(4)]
SEEDS = [jsonl(some) for some in (rollouts({"a": [0, 1], "b": [1, None]}), VERL, METRICS, LOGGED)]
NAMES = st.sampled_from(
    ["step", "group", "sample", "prompt", "completion", "reward", "reward/x", "correct", "uid"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FOUND = Path(__file__).parent / "data" / "fuzz"
quick = settings(max_examples=60, deadline=None)


def read_bytes(data: bytes, suffix: str = ".jsonl", **options):
    """Read a file with these bytes and everything that it offers; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"1{suffix}")
        path.write_bytes(data)
        try:
            run = bt.read(path, **options)
        except ButtressError:
            return None
        groups = run.groups
        assert groups.offsets[-1] == len(groups.rewards) == len(groups.order)
        assert all(len(column) == groups.n_samples for column in groups.columns.values())
        assert not np.isinf(groups.rewards).any()
        if run.texts is not None:
            texts = run.texts(range(groups.n_samples))
            assert all(isinstance(text, str) for pair in texts for text in pair)
        assert all(one.file == str(path) or not one.file for one in run.problems)
        lines = data.count(b"\n") + 1
        assert all(0 <= one.line <= lines for one in run.problems)
        return run


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: path.stem)
def test_what_once_broke_a_reader(path):
    """Inputs of `tests.fuzz`, by the fault that they found."""
    read_bytes(path.read_bytes(), path.suffix)


@quick
@given(st.binary(max_size=300), st.sampled_from([".jsonl", ".json", ".jsonl.gz", ".jsonl.zst"]))
def test_random_bytes(data, suffix):
    read_bytes(data, suffix)


@quick
@given(st.binary(max_size=100), st.sampled_from([b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1"]))
def test_random_bytes_behind_a_magic_number(data, magic):
    read_bytes(magic + data)


@quick
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_bytes(seed, data):
    mutated = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        mutated = mutated or bytearray(b"{")
    read_bytes(bytes(mutated))


@quick
@given(
    st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=6),
    st.sampled_from([None, "verl", "generic"]),
    st.sampled_from([None, 2]),
)
def test_rows_of_anything(rows, format, group_size):
    read_bytes(jsonl(rows), format=format, group_size=group_size)


@quick
@given(
    st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=8),
    st.sampled_from([31, 200, files.CHUNK]),
    st.randoms(use_true_random=False),
)
def test_sound_lines_survive_broken_ones(broken, chunk, rng):
    sound = rollouts({"a": [rng.random() for _ in range(6)]})
    # the first bytes may name another kind of file
    first, *lines = [json.dumps(row).encode() for row in sound] + broken
    rng.shuffle(lines)
    lines.insert(0, first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", chunk)
        run = read_bytes(b"\n".join(lines) + b"\n")
    assert run is not None
    expected = {row["sample"]: row["reward"] for row in sound}
    samples = run.groups.columns["sample"].tolist()
    assert dict(zip(samples, run.groups.rewards.tolist(), strict=True)) == expected


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([200, 5000]))
def test_block_and_line_decoding_agree(seed, chunk):
    """A broken line sends its block down the slow path; the rows must not notice."""
    rng = random.Random(seed)
    rows = [
        {
            "group": rng.choice("ab"),
            "prompt": rng.choice(["é\n", 'q"', "\\", "😀"]),
            "completion": rng.choice(["π", '": NaN', "\u2028", "x\\"]),
            "reward": rng.choice([1, 0.5, True, None, float("nan"), -3]),
            "truncated": rng.choice([True, False, None]),
        }
        for _ in range(40)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", chunk)
        clean = read_bytes(jsonl(rows, ensure_ascii=False))
        faulty = read_bytes(jsonl(rows, ensure_ascii=False) + b"broken\n")
    assert clean is not None
    assert faulty is not None
    assert clean.groups.prompt_id.tolist() == faulty.groups.prompt_id.tolist()
    for name in ("completion", "prompt", "truncated"):
        np.testing.assert_array_equal(clean.groups.columns[name], faulty.groups.columns[name])
    np.testing.assert_array_equal(clean.groups.rewards, faulty.groups.rewards)

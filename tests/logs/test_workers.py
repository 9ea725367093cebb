"""A log read by several processes is the log read by one."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import buttress as bt
from buttress.logs import workers
from buttress.logs.builder import RolloutBuilder
from buttress.measures import duplicates
from tests.logs import dumps
from tests.logs.writing import rollouts, write


@pytest.fixture
def folder(tmp_path):
    """Return a log with texts, faults, repeats and unknown values to carry over."""
    rng = random.Random(5)
    for step in range(1, 10):
        names = rng.sample("abcdefghi", 3)
        rows = rollouts({one: rng.choices([0, 1, None], k=4) for one in names}, step)
        for row in rows:
            row["completion"] = rng.choice(["same", row["completion"]] + [None] * (step != 4))
            if step > 5:
                row["length"] = "12"
        path = write(tmp_path / f"{step}.jsonl", rows)
        if step in (3, 8):
            with path.open("ab") as file:
                file.write(b"broken\n")
    (tmp_path / "9_again.jsonl").write_bytes((tmp_path / "4.jsonl").read_bytes())
    write(tmp_path / "metrics.jsonl", [{"step": 1, "loss": 0.5}])
    return tmp_path


def read_by(count: int, folder, monkeypatch, **options):
    monkeypatch.setenv("BUTTRESS_WORKERS", str(count))
    return bt.read(folder, **options)


def assert_same(one, other) -> None:
    assert (one.source, one.facts) == (other.source, other.facts)
    assert set(one.problems) == set(other.problems)
    assert one.groups.columns.keys() == other.groups.columns.keys()
    for name in one.groups.columns.keys() - {"completion"}:
        np.testing.assert_array_equal(one.groups.columns[name], other.groups.columns[name])
    for name in ("rewards", "offsets", "step", "group_id", "prompt_id"):
        np.testing.assert_array_equal(getattr(one.groups, name), getattr(other.groups, name))
    assert duplicates(one.groups) == duplicates(other.groups)
    everything = range(one.groups.n_samples)
    assert one.texts(everything) == other.texts(everything)
    assert one.scalars.keys() == other.scalars.keys()


@pytest.mark.parametrize("count", [2, 5])
def test_the_same_run(folder, monkeypatch, count):
    alone = read_by(1, folder, monkeypatch)
    assert (alone.facts.repeated, alone.facts.unreadable) == (12, 2)
    assert_same(alone, read_by(count, folder, monkeypatch))


def test_a_process_that_dies(folder, monkeypatch):
    alone = read_by(1, folder, monkeypatch)
    monkeypatch.setattr(workers, "_SERVE", "raise SystemExit(3)")
    assert_same(alone, read_by(2, folder, monkeypatch))


def test_one_of_them_dies_half_way(folder, monkeypatch):
    alone = read_by(1, folder, monkeypatch)
    half = (
        "import os; from buttress.logs import workers;"
        "workers.RolloutBuilder.part = lambda self: os._exit(3) if '1.jsonl' in "
        "self._paths[0] else (_ for _ in ()).throw(SystemExit(4)); workers.serve()"
    )
    monkeypatch.setattr(workers, "_SERVE", half)
    assert_same(alone, read_by(2, folder, monkeypatch))


def test_progress_reaches_the_end(folder, monkeypatch):
    told = []
    read_by(3, folder, monkeypatch, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0


def test_small_logs_start_nothing(folder, monkeypatch):
    monkeypatch.delenv("BUTTRESS_WORKERS", raising=False)
    monkeypatch.setattr(workers, "_Workers", lambda *_: pytest.fail("a process was started"))
    assert bt.read(folder).groups.n_samples


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shares_are_even_and_in_order(count):
    rng = random.Random(count)
    sizes = {Path(str(at)): rng.randrange(900, 1100) for at in range(40)}
    shares = workers._shares(list(sizes), list(sizes.values()), count)
    assert [path for share in shares for path in share] == list(sizes)
    held = [sum(map(sizes.__getitem__, share)) for share in shares]
    assert len(held) == count
    assert max(held) - min(held) <= 2 * 1100


@pytest.mark.parametrize("count", [2, 3])
def test_many_turns(folder, monkeypatch, count):
    alone = read_by(1, folder, monkeypatch)
    shares, processes = [], []
    monkeypatch.setattr(workers, "TURN", 1)
    ask, end = workers._Workers.ask, workers._Workers.end

    def asked(self, *task):
        shares.append(task[1])
        return ask(self, *task)

    def ended(self):
        processes.extend(self._started)
        end(self)

    monkeypatch.setattr(workers._Workers, "ask", asked)
    monkeypatch.setattr(workers._Workers, "end", ended)
    assert_same(alone, read_by(count, folder, monkeypatch))
    assert len(shares) > count
    assert len(processes) <= count  # each serves one share after the other
    assert all(process.returncode is not None for process in processes)


def test_records_with_texts_of_their_own(tmp_path, monkeypatch):
    for at, name in enumerate("abc"):
        dumps.results(tmp_path / name, {at: [0, 1, 1], at + 3: [0, 0]})
    alone = read_by(1, tmp_path, monkeypatch)
    assert alone.groups.n_samples == 15
    assert_same(alone, read_by(3, tmp_path, monkeypatch))


def test_that_a_log_is_filtered_is_carried_over():
    one, other = RolloutBuilder(), RolloutBuilder()
    other.note(filtered=True)
    one.absorb(other.part())
    assert one.facts.filtered

"""Which rank gives the result: always exactly one, and never on half of the outcomes."""

from __future__ import annotations

import itertools
import os

import pytest

from buttress.train.outcomes import is_last
from buttress.train.store import Outcome, Store

COUNT, RECORD = 4, {"model": "m"}


def outcomes(rank, world):
    return [Outcome(index, [1.0], [1]) for index in range(COUNT) if index % world == rank]


def as_rank(monkeypatch, rank, world):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_one_rank_speaks_in_whatever_order_they_end(tmp_path, monkeypatch, order):
    world = len(order)
    stores = [Store(tmp_path, RECORD, rank=rank) for rank in range(world)]
    said = []
    for place, rank in enumerate(order):
        as_rank(monkeypatch, rank, world)
        stores[rank].add(outcomes(rank, world))
        os.utime(tmp_path / f"finished-{rank}.jsonl", ns=(place, place + 1))
        said.append(is_last([stores[rank]], COUNT))
    assert said == [False, False, True]
    for rank in order[:-1]:  # one that looks late, when all is there, leaves it to the same
        as_rank(monkeypatch, rank, world)
        assert not is_last([stores[rank]], COUNT)


def test_parts_that_others_ended_meanwhile_are_seen(tmp_path, monkeypatch):
    """Rank 0 read the first part while rank 1 was at it, and ends the second as the last of all."""
    first = [Store(tmp_path / "greedy", RECORD, rank=rank) for rank in (0, 1)]
    second = [Store(tmp_path / "sampled", RECORD, rank=rank) for rank in (0, 1)]
    first[0].add(outcomes(0, 2))
    first[0].reread()
    first[1].add(outcomes(1, 2))
    second[1].add(outcomes(1, 2))
    as_rank(monkeypatch, 1, 2)
    assert not is_last([first[1], second[1]], COUNT)
    second[0].add(outcomes(0, 2))
    for place, path in enumerate(["greedy/finished-0", "greedy/finished-1", "sampled/finished-1"]):
        os.utime(tmp_path / f"{path}.jsonl", ns=(place, place))
    as_rank(monkeypatch, 0, 2)
    assert is_last([first[0], second[0]], COUNT)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_what_more_ranks_ended_before_is_said_by_one_of_fewer(tmp_path, monkeypatch, world):
    for rank in range(4):
        Store(tmp_path, RECORD, rank=rank).add(outcomes(rank, 4))
        os.utime(tmp_path / f"finished-{rank}.jsonl", ns=(rank, rank))
    said = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        said.append(is_last([Store(tmp_path, RECORD, rank=rank)], COUNT))
    assert said.count(True) == 1

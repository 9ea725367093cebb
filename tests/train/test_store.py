"""Outcomes on disk: whatever ends a process, whole lines stay and torn ones go."""

from __future__ import annotations

import pytest

from buttress.errors import ButtressError, InputError, UsageError
from buttress.train.store import Outcome, Store

RECORD = {"n": 2, "sampling": {"temperature": 1.0}}


def outcome(index, *scores):
    return Outcome(index, list(scores), [3] * len(scores))


def test_outcomes_come_back_as_they_were(tmp_path):
    kept = Outcome(3, [1.0, None, 0.5], [4, 5, 6], 1, {"late": 1}, ["a", "b\n", "π"])
    Store(tmp_path / "a" / "b", RECORD).add([kept, outcome(0, 1.0)])
    again = Store(tmp_path / "a" / "b", RECORD)
    assert again.outcomes == {3: kept, 0: outcome(0, 1.0)}
    assert (kept.tries(), kept.successes(1.0), kept.successes(0.5)) == (2, 1, 2)


def test_in_memory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(None, RECORD)
    store.add([outcome(0, 1.0)])
    store.reread()
    assert list(store.outcomes) == [0]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_line_is_dropped_and_written_anew(tmp_path, cut):
    store = Store(tmp_path, RECORD)
    store.add([outcome(0, 1.0)])
    whole = (tmp_path / "finished-0.jsonl").read_bytes()
    store.add([outcome(1, 0.0)])
    path = tmp_path / "finished-0.jsonl"
    path.write_bytes((whole + path.read_bytes()[len(whole) :])[: len(whole) + cut])
    again = Store(tmp_path, RECORD)
    again.add([outcome(1, 0.0)])
    assert Store(tmp_path, RECORD).outcomes == {0: outcome(0, 1.0), 1: outcome(1, 0.0)}


def test_a_damaged_line_costs_itself_alone(tmp_path):
    Store(tmp_path, RECORD).add([outcome(0, 1.0), outcome(1, 0.0)])
    path = tmp_path / "finished-0.jsonl"
    path.write_bytes(b"\x00\xff damaged\n" + path.read_bytes())
    assert list(Store(tmp_path, RECORD).outcomes) == [0, 1]


def test_ranks_write_their_own_and_read_all(tmp_path):
    first, second = (Store(tmp_path, RECORD, rank=rank) for rank in (0, 1))
    first.add([outcome(0, 1.0)])
    second.add([outcome(1, 0.0)])
    first.reread()
    assert sorted(first.outcomes) == [0, 1]
    assert sorted(path.name for path in tmp_path.glob("finished*")) == [
        "finished-0.jsonl",
        "finished-1.jsonl",
    ]


def test_a_torn_line_of_another_rank_is_left_to_its_writer(tmp_path):
    Store(tmp_path, RECORD, rank=1).add([outcome(1, 0.0)])
    with (tmp_path / "finished-1.jsonl").open("ab") as file:
        file.write(b'{"index": 2, "sco')
    assert list(Store(tmp_path, RECORD, rank=0).outcomes) == [1]
    assert (tmp_path / "finished-1.jsonl").read_bytes().endswith(b"sco")


def test_other_settings_are_refused_and_named(tmp_path):
    Store(tmp_path, RECORD)
    with pytest.raises(UsageError, match=r"sampling\.temperature: 1\.0 then, 0\.7 now"):
        Store(tmp_path, RECORD | {"sampling": {"temperature": 0.7}})
    (tmp_path / "settings.json").write_text("{torn")
    with pytest.raises(InputError, match="damaged"):
        Store(tmp_path, RECORD)
    (tmp_path / "settings.json").unlink()
    (tmp_path / "finished-0.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"without settings\.json"):
        Store(tmp_path, RECORD)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write into"):
        Store(tmp_path / "file", RECORD)


def test_a_write_that_fails_keeps_what_was_there(tmp_path, monkeypatch):
    store = Store(tmp_path, RECORD)
    store.add([outcome(0, 1.0)])
    (tmp_path / "finished-0.jsonl").rename(tmp_path / "kept")
    (tmp_path / "finished-0.jsonl").mkdir()
    with pytest.raises(ButtressError, match=r"make room and give the same command again"):
        store.add([outcome(1, 1.0)])
    assert 1 not in store.outcomes

"""Paths, compression and damage: what is found, in which order, and how much survives."""

from __future__ import annotations

import gzip
import os
import random

import pytest
import zstandard

import buttress as bt
from buttress.errors import InputError, UsageError
from buttress.logs import files
from buttress.logs.formats import lines
from tests.logs.writing import jsonl, rollouts, write

PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def noise(n_rows: int) -> bytes:
    """Return rollouts that hardly compress, so that a cut falls into the rows."""
    rng = random.Random(1)
    rows = rollouts({str(at): [0, 1, 1, 0] for at in range(n_rows // 4)})
    return jsonl(row | {"completion": rng.randbytes(400).hex()} for row in rows)


class TestExpand:
    def test_natural_order(self, tmp_path):
        for name in ("10.jsonl", "9.jsonl", "b2/1.jsonl", "b10/1.jsonl"):
            write(tmp_path / name, [{"reward": 1}])
        found = [str(path.relative_to(tmp_path)) for path in files.expand(tmp_path)]
        assert found == ["9.jsonl", "10.jsonl", "b2/1.jsonl", "b10/1.jsonl"]

    def test_patterns(self, tmp_path):
        for name in ("a/1.jsonl", "b/2.jsonl", "b/c/3.jsonl"):
            write(tmp_path / name, [{"reward": 1}])
        assert len(files.expand(f"{tmp_path}/*/*.jsonl")) == 2
        assert len(files.expand(f"{tmp_path}/**/*.jsonl")) == 3
        assert len(files.expand(f"{tmp_path}/b*")) == 2
        with pytest.raises(InputError, match="no file matches"):
            files.expand(f"{tmp_path}/*.csv")

    def test_a_name_with_brackets_is_a_name(self, tmp_path):
        path = write(tmp_path / "run[1].jsonl", [{"reward": 1}])
        assert files.expand(path) == [path]

    def test_hidden_files_and_loops_of_links(self, tmp_path):
        write(tmp_path / "run" / "1.jsonl", [{"reward": 1}])
        write(tmp_path / "run" / ".2.jsonl", [{"reward": 1}])
        write(tmp_path / "run" / ".git" / "3.jsonl", [{"reward": 1}])
        (tmp_path / "run" / "again").symlink_to(tmp_path / "run")
        assert [path.name for path in files.expand(tmp_path / "run")] == ["1.jsonl"]

    def test_linked_folders_are_followed(self, tmp_path):
        write(tmp_path / "disk" / "1.jsonl", [{"reward": 1}])
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "rollouts").symlink_to(tmp_path / "disk")
        assert len(files.expand(tmp_path / "run")) == 1

    def test_missing_empty_and_irregular(self, tmp_path):
        with pytest.raises(InputError, match=r"no such file or directory: .*nothing/here"):
            bt.read(tmp_path / "nothing" / "here")
        with pytest.raises(InputError, match=r"nothing\.jsonl \(seen from /"):
            bt.read("nothing.jsonl")
        with pytest.raises(InputError, match="holds no files"):
            bt.read(tmp_path)
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InputError, match="not a regular file"):
            bt.read(tmp_path / "pipe")

    def test_a_file_named_twice_counts_once(self, tmp_path):
        path = write(tmp_path / "1.jsonl", rollouts({"a": [0, 1]}))
        assert bt.read([tmp_path, path, str(path)]).groups.n_samples == 2

    @pytest.mark.parametrize("source", [[], 3, None, [3], [None]])
    def test_no_path_at_all(self, source):
        with pytest.raises(UsageError, match="read needs"):
            bt.read(source)


class TestCompression:
    @pytest.mark.parametrize("suffix", PACKERS)
    def test_the_same_run(self, tmp_path, suffix):
        data = noise(4000)
        (tmp_path / f"a.jsonl{suffix}").write_bytes(PACKERS[suffix](data))
        run = bt.read(tmp_path)
        assert run.problems == ()
        assert run.groups.n_samples == 4000
        assert run.groups.rewards[:4].tolist() == [0, 1, 1, 0]
        assert run.texts([3999])[0].prompt == "prompt of 999"

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_several_members(self, tmp_path, suffix):
        first, second = jsonl(rollouts({"a": [0, 1]})), jsonl(rollouts({"b": [1, 1]}))
        data = PACKERS[suffix](first) + PACKERS[suffix](second)
        (tmp_path / f"a.jsonl{suffix}").write_bytes(data)
        run = bt.read(tmp_path)
        assert (run.groups.n_samples, run.problems) == (4, ())

    def test_told_by_content(self, tmp_path):
        (tmp_path / "a.jsonl").write_bytes(gzip.compress(jsonl(rollouts({"a": [0, 1]}))))
        assert bt.read(tmp_path).groups.n_samples == 2

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_cut_off(self, tmp_path, suffix):
        packed = PACKERS[suffix](noise(4000))
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(packed[: len(packed) // 2])
        run = bt.read(path)
        assert 1500 < run.groups.n_samples < 2500
        messages = " ".join(one.message for one in run.problems)
        assert "stream ends early" in messages
        assert {one.file for one in run.problems} == {str(path)}

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_damaged(self, tmp_path, suffix):
        packed = bytearray(PACKERS[suffix](noise(4000)))
        middle = len(packed) // 2
        packed[middle : middle + 4000] = bytes(4000)
        (tmp_path / f"a.jsonl{suffix}").write_bytes(packed)
        run = bt.read(tmp_path)
        assert run.groups.n_samples > 1000
        assert any("stream is damaged" in one.message for one in run.problems)

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_a_bomb_is_streamed(self, tmp_path, suffix, monkeypatch):
        monkeypatch.setattr(lines, "LINE_LIMIT", 1 << 20)
        head = jsonl(rollouts({"a": [0, 1]}))
        bomb = head + b'{"reward": 1, "completion": "' + b"x" * (64 << 20) + b'"}\n' + head
        (tmp_path / f"a.jsonl{suffix}").write_bytes(PACKERS[suffix](bomb))
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 4
        (problem,) = run.problems
        assert (problem.line, run.facts.unreadable) == (3, 1)
        assert "more than 1 MiB" in problem.message


class TestBlocks:
    @pytest.mark.parametrize("chunk", [7, 64, 1000, 1 << 20])
    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
    def test_every_line_once_with_its_number(self, tmp_path, monkeypatch, chunk, end):
        monkeypatch.setattr(files, "CHUNK", chunk)
        rng = random.Random(chunk)
        expected = [b"x" * rng.randrange(200) + b"%d" % at for at in range(50)]
        (tmp_path / "a").write_bytes(b"\n".join(expected) + end)
        found, torn = [], []
        for block in lines.blocks(tmp_path / "a"):
            found += block.lines()
            torn.append(block.torn)
        assert found == list(enumerate(expected, 1))
        assert torn == [False] * (len(torn) - 1) + [end == b""]

    @pytest.mark.parametrize("window", [1, 10, 1000])
    def test_lines_looked_at_are_whole(self, tmp_path, monkeypatch, window):
        monkeypatch.setattr(lines, "WINDOWS", (window,))
        expected = [b"%d" % at * (at % 7) for at in range(100)]
        (tmp_path / "a").write_bytes(b"\n".join(expected) + b"\n")
        (block,) = lines.blocks(tmp_path / "a")
        assert (block.near(0), block.near(1)) == (expected[0], expected[-1])
        assert {block.near(at / 300) for at in range(300)} <= set(expected)

    def test_lines_beyond_the_limit_are_left_out(self, tmp_path, monkeypatch):
        monkeypatch.setattr(files, "CHUNK", 16)
        monkeypatch.setattr(lines, "LINE_LIMIT", 100)
        long = b"y" * 1000
        (tmp_path / "a").write_bytes(b"\n".join([b"1", long, b"3", long, long, b"6", long]))
        found = [pair for block in lines.blocks(tmp_path / "a") for pair in block.lines()]
        assert found == [(1, b"1"), (3, b"3"), (6, b"6")]

    @pytest.mark.parametrize("text", ["", "a", "é" * 3000, "a" * 5000 + "π", "a" * 5000 + "😀a"])
    def test_utf8(self, text):
        data = text.encode()
        assert lines.valid_utf8(data)
        for bad in (b"\xff", b"\xc3", b"\x80", "é".encode("latin-1"), "😀".encode()[:3]):
            assert not lines.valid_utf8(data + bad)
            assert not lines.valid_utf8(bad + data + b"a" * 2000)


def test_progress_ends_at_the_size_of_what_was_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(noise(4000))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(noise(400)))
    told = []
    bt.read(tmp_path, progress=lambda done, total: told.append((done, total)))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert told[-1] == (total, total)
    assert told == sorted(told)

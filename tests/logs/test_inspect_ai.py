"""inspect_ai's logs, written by the real inspect_ai, and archives made to hurt."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError, UsageError
from buttress.logs.frameworks import inspect_files

DATA = Path(__file__).parent / "data"
LOGS = {
    "zip": DATA / "inspect_ai" / "sums.eval",
    "json": DATA / "inspect_ai" / "sums.json",
    "chunked": DATA / "inspect_chunked" / "sums.eval",
}
HEAD = {"eval": {"task": "t", "task_id": "T", "model": "m", "config": {"epochs": 2}}}


def sample(epoch: int, value, **extra) -> dict:
    return {
        "id": "a",
        "epoch": epoch,
        "input": "q",
        "target": "4",
        "output": {
            "choices": [{"message": {"content": "x"}, "stop_reason": "stop"}],
            "completion": f"answer {epoch}",
            "usage": {"output_tokens": 3},
        },
        "scores": {"match": {"value": value}},
        "uuid": f"u{epoch}",
    } | extra


def archive(path: Path, samples: list[dict], method: int = zipfile.ZIP_DEFLATED, head=HEAD) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("_journal/start.json", json.dumps(head))
        for one in samples:
            file.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    return path


def document(path: Path, samples: list, **options) -> Path:
    path.write_text(
        json.dumps({"version": 2, "status": "success", **HEAD, "samples": samples}, **options)
    )
    return path


class TestReal:
    @pytest.mark.parametrize("kind", LOGS)
    def test_every_form_reads_the_same(self, kind):
        run = bt.read(LOGS[kind])
        groups = run.groups
        assert (run.source.format, run.problems, run.facts.grouped_by) == ("inspect_ai", (), "key")
        assert run.facts.group_size == 4
        assert groups.sizes.tolist() == [4, 4]
        assert groups.prompt_id.tolist() == ["sums/a", "sums/b"]
        assert groups.columns["sample"].tolist() == [1, 2, 3, 4] * 2
        assert groups.rewards.tolist() == [1, 0] * 4
        assert groups.columns["correct"].tolist() == [1, 0] * 4
        assert groups.columns["length"].tolist() == [3, 5, 3, 5, 4, 6, 4, 6]
        assert groups.columns["truncated"].tolist() == [0, 1, 0, 0, 0, 0, 1, 0]
        # a score that is unscored is NaN in the log, and a scorer may give several
        brevity = groups.columns["reward/brevity"]
        assert np.isnan(brevity).tolist() == [False] * 5 + [True] + [False] * 2
        assert set(groups.columns["reward/parts/words"].tolist()) == {0.5}
        texts = run.texts([7, 0])
        assert texts[0].prompt.startswith("3+4? Think hard.")
        assert texts[0].completion.endswith("Well, 5")
        assert texts[1] == ("2+2?", "4")
        assert "reward: the score of match, the first of 3 scorers" in run.source.inferred

    def test_another_scorer(self):
        run = bt.read(LOGS["zip"], map={"reward": "parts/digits", "correct": "match"})
        assert set(run.groups.rewards.tolist()) == {1.0}
        assert not any("first of" in one for one in run.source.inferred)
        with pytest.raises(UsageError, match="match, brevity"):
            bt.read(LOGS["zip"], map={"reward": "matsch"})

    def test_two_logs_of_one_evaluation_count_once(self):
        run = bt.read(LOGS["zip"].parent)
        assert run.groups.n_samples == 8
        assert run.facts.repeated == 8
        assert any("stand in more than one log" in one for one in run.source.inferred)

    def test_a_log_that_is_still_written(self, tmp_path):
        """Without its header and summaries there are the journal and the samples so far."""
        path = tmp_path / "1.eval"
        with zipfile.ZipFile(LOGS["zip"]) as whole, zipfile.ZipFile(path, "w") as part:
            wanted = ("_journal/start.json", "samples/a_epoch_1.json", "samples/b_epoch_1.json")
            for name in wanted:
                entry = whole.NameToInfo[name]
                with LOGS["zip"].open("rb") as file:
                    part.writestr(name, inspect_files._unpacked(file, entry))
        run = bt.read(path)
        assert (run.groups.n_samples, run.problems) == (2, ())

    @pytest.mark.parametrize("kind", LOGS)
    def test_through_the_command_line(self, capsys, kind):
        with pytest.raises(SystemExit) as left:
            main(["diagnose", str(LOGS[kind]), "--json", "--fail-on", "never"])
        told = json.loads(capsys.readouterr().out)
        assert left.value.code == 0
        assert (told["source"]["format"], told["source"]["rollouts"]) == ("inspect_ai", 8)
        assert told["measures"]["acr"] == 0
        assert told["measures"]["acr_by_reward"]["reward/parts/digits"] == 1

    def test_progress_ends_at_the_size(self):
        told = []
        bt.read(LOGS["zip"], progress=lambda done, total: told.append((done, total)))
        size = LOGS["zip"].stat().st_size
        assert told[-1] == (size, size)


class TestScores:
    @pytest.mark.parametrize(
        ("value", "reward", "correct"),
        [
            ("C", 1, 1),
            ("P", 0.5, 0.5),
            ("I", 0, 0),
            ("N", 0, 0),
            ("yes", 1, np.nan),
            ("False", 0, np.nan),
            (0.25, 0.25, np.nan),
            (True, 1, np.nan),
            (None, np.nan, np.nan),
            (float("nan"), np.nan, np.nan),
        ],
    )
    @pytest.mark.parametrize("write", [archive, document])
    def test_values(self, tmp_path, write, value, reward, correct):
        suffix = "eval" if write is archive else "json"
        run = bt.read(write(tmp_path / f"1.{suffix}", [sample(1, value), sample(2, 0.5)]))
        np.testing.assert_array_equal(run.groups.rewards, [reward, 0.5])
        found = run.groups.columns.get("correct", np.full(2, np.nan))
        np.testing.assert_array_equal(found, [correct, np.nan])
        assert run.problems == ()

    @pytest.mark.parametrize("value", ["good", 10**400, [1, 0]])
    def test_values_that_are_no_numbers(self, tmp_path, value):
        run = bt.read(archive(tmp_path / "1.eval", [sample(1, value), sample(2, 1)]))
        np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1])
        assert any("reward is not a number" in one.message for one in run.problems)

    def test_a_sample_that_failed_has_no_reward(self, tmp_path):
        failed = sample(1, 1, scores=None, error={"message": "boom"}, output={"choices": []})
        run = bt.read(archive(tmp_path / "1.eval", [failed, sample(2, 1)]))
        np.testing.assert_array_equal(run.groups.rewards, [np.nan, 1])
        assert run.problems == ()

    @pytest.mark.parametrize(
        ("changes", "cut"),
        [
            ({"limit": {"type": "token", "limit": 9}}, 1),
            ({"limit": {"type": "time", "limit": 9}}, 0),
            ({"output": {"choices": [{"stop_reason": "model_length"}]}}, 1),
            ({"output": {"choices": []}}, np.nan),
            ({"output": None}, np.nan),
        ],
    )
    def test_truncated(self, tmp_path, changes, cut):
        run = bt.read(archive(tmp_path / "1.eval", [sample(1, 1, **changes), sample(2, 1)]))
        np.testing.assert_array_equal(run.groups.columns["truncated"], [cut, 0])

    def test_tokens_of_a_judge_are_not_the_models(self, tmp_path):
        usage = {"m": {"output_tokens": 70}, "judge": {"output_tokens": 500}}
        run = bt.read(archive(tmp_path / "1.eval", [sample(1, 1, model_usage=usage), sample(2, 1)]))
        assert run.groups.columns["length"].tolist() == [70, 3]

    def test_one_sample_id_in_two_tasks(self, tmp_path):
        for name in ("t1", "t2"):
            head = {"eval": {"task": name, "task_id": name}}
            rows = [sample(at, at % 2, uuid=f"{name}{at}") for at in (1, 2)]
            archive(tmp_path / f"{name}.eval", rows, head=head)
        groups = bt.read(tmp_path).groups
        assert groups.sizes.tolist() == [2, 2]
        assert groups.prompt_id.tolist() == ["t1/a", "t2/a"]

    def test_attachments_in_place(self, tmp_path):
        held = {"input": "attachment://abc", "attachments": {"abc": "the question"}}
        run = bt.read(archive(tmp_path / "1.eval", [sample(1, 1, **held)]))
        assert run.texts([0])[0].prompt == "the question"


class TestDamage:
    def test_a_zip_bomb_is_cut_off(self, tmp_path, monkeypatch):
        monkeypatch.setattr(inspect_files, "ENTRY_LIMIT", 1 << 20)
        bomb = sample(1, 1, store={"x": "0" * (8 << 20)})
        run = bt.read(archive(tmp_path / "1.eval", [bomb, sample(2, 1)]))
        assert run.groups.n_samples == 1
        (problem,) = run.problems
        assert "samples/a_epoch_1.json: more than 1 MiB unpacked; left out" in problem.message
        assert run.facts.unreadable == 1

    @pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93])
    def test_a_size_that_lies(self, tmp_path, monkeypatch, method):
        """The directory claims a few bytes; what is unpacked is still bounded."""
        monkeypatch.setattr(inspect_files, "ENTRY_LIMIT", 1 << 20)
        data = b'"' + b"0" * (8 << 20) + b'"'
        packed = zstandard.compress(data) if method == 93 else data
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if method == 93 else method) as file:
            file.writestr("x", packed)
        with zipfile.ZipFile(path) as file:
            entry = file.NameToInfo["x"]
        entry.file_size, entry.compress_type = 10, method
        with path.open("rb") as file, pytest.raises(inspect_files._EntryError, match="more than"):
            inspect_files._unpacked(file, entry)

    def test_a_document_beyond_the_limit(self, tmp_path, monkeypatch):
        monkeypatch.setattr(inspect_files, "ENTRY_LIMIT", 1 << 16)
        path = document(tmp_path / "1.json", [sample(1, 1, store={"x": "0" * (1 << 17)})])
        run = bt.read(path)
        assert run.groups.n_samples == 0
        assert "inspect log convert" in run.problems[0].message

    @pytest.mark.parametrize("cut", [0.1, 0.5, 0.9, 0.999])
    def test_a_cut_off_archive(self, tmp_path, cut):
        data = LOGS["zip"].read_bytes()
        (tmp_path / "1.eval").write_bytes(data[: int(len(data) * cut)])
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 0
        assert "inspect log recover" in run.problems[0].message

    def test_damaged_entries(self, tmp_path):
        path = Path(shutil.copy(LOGS["zip"], tmp_path / "1.eval"))
        data = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as file:
            places = [file.NameToInfo[f"samples/a_epoch_{at}.json"].header_offset for at in (1, 2)]
        data[places[0] + 300 : places[0] + 310] = bytes(10)
        data[places[1] : places[1] + 4] = b"????"
        path.write_bytes(data)
        run = bt.read(path)
        assert run.groups.n_samples == 6
        assert run.facts.unreadable == 2
        told = [one.message.partition(":")[0] for one in run.problems]
        assert sorted(told) == ["samples/a_epoch_1.json", "samples/a_epoch_2.json"]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"scores": 3}, "at `$.scores`"),
            ({"output": "x"}, "at `$.output`"),
            ({"uuid": 5}, "at `$.uuid`"),
        ],
    )
    @pytest.mark.parametrize("write", [archive, document])
    def test_wrong_types(self, tmp_path, write, changes, message):
        suffix = "eval" if write is archive else "json"
        path = write(tmp_path / f"1.{suffix}", [sample(1, 1, **changes), sample(2, 1)])
        run = bt.read(path)
        assert run.groups.n_samples == 1
        (problem,) = run.problems
        assert problem.file == str(path)
        assert message in problem.message

    def test_missing_columns(self, tmp_path):
        run = bt.read(document(tmp_path / "1.json", [{"id": 1}, {"epoch": 2}, 7, None]))
        assert run.groups.n_samples == 1
        assert run.facts.unreadable == 3

    @pytest.mark.parametrize("cut", [100, -1, -200])
    def test_a_cut_off_document(self, tmp_path, cut):
        text = LOGS["json"].read_text("utf-8").rstrip()
        (tmp_path / "1.json").write_text(text[:cut])
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 0
        assert "not a whole log" in run.problems[0].message

    def test_another_archive(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.eval", "w") as file:
            file.writestr("readme.txt", "hello")
        run = bt.read(tmp_path)
        assert run.groups.n_samples == 0
        assert "start.json" in run.problems[0].message
        shutil.move(tmp_path / "a.eval", tmp_path / "a.zip")
        with pytest.raises(InputError, match="zip archive"):
            bt.read(tmp_path / "a.zip")

    def test_an_encrypted_entry_and_an_unknown_packing(self, tmp_path):
        path = archive(tmp_path / "1.eval", [sample(1, 1), sample(2, 1)], zipfile.ZIP_BZIP2)
        run = bt.read(path)
        assert run.groups.n_samples == 0
        assert any("packed with method 12" in one.message for one in run.problems)

    @pytest.mark.parametrize("name", ["1.eval", "1.json"])
    def test_an_empty_file(self, tmp_path, name):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match="empty"):
            bt.read(tmp_path)

    def test_a_file_that_vanishes(self, tmp_path):
        path = archive(tmp_path / "1.eval", [sample(1, 1)])
        run = bt.read(path)
        path.unlink()
        assert run.texts([0]) == [("", "")]

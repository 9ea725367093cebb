"""While nothing is deleted, a watched run ends as what `diagnose` says of its folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.logs.reader import ReadOptions
from buttress.watch import Watcher
from buttress.watch.watcher import under_their_names

DATA = Path("tests/logs/data")
SETTINGS = """
algorithm:
  filter_groups:
    enable: true
    max_num_gen_batches: 10
data:
  train_batch_size: 16
  gen_batch_size: 48
"""


def rows(steps, tag=""):
    return "".join(
        json.dumps(
            {
                "step": step,
                "group": f"{step}-{prompt}",
                "sample": sample,
                "prompt_id": f"p{prompt}",
                "completion": f"{tag}{step}/{prompt}/{sample}",
                "reward": float(sample == 0 and prompt > 0),
            }
        )
        + "\n"
        for step in steps
        for prompt in range(2)
        for sample in range(3)
    )


def diagnose(files):
    return bt.diagnose(under_their_names(bt.read(list(files)), files))


def watcher(path, tmp_path, **options):
    return Watcher(str(path), diagnose, folder=tmp_path / "held", **options)


def same(look, path):
    assert look.diagnosis.as_dict() == bt.diagnose(bt.read(path)).as_dict()


MOVES = ("append", "new", "again", "over", "cut", "other", "empty")


class Job:
    """Writes as trainers do: grows a log, dumps a file a step, rewrites, and is started again."""

    def __init__(self, folder):
        self.folder, self.step = folder, 0
        folder.mkdir()
        self.text = rows(range(40)).encode()
        self.at = 0

    def append(self, size):
        with (self.folder / "log.jsonl").open("ab") as file:
            file.write(self.text[self.at : self.at + size])
        self.at += size

    def new(self, size):
        (self.folder / f"{self.step}.jsonl").write_text(rows([100 + self.step]))
        self.step += 1

    def again(self, size):
        step = size % (self.step + 1)
        (self.folder / f"{step}.jsonl").write_text(rows([100 + step], tag=f"again {size}"))

    def over(self, size):
        """Write a longer file beside a dump and move it there."""
        step = size % (self.step + 1)
        old = self.folder / f"{step}.jsonl"
        begun = old.read_text() if old.exists() else ""
        (self.folder / ".new").write_text(begun + rows([200 + size]))
        (self.folder / ".new").replace(old)

    def cut(self, size):
        (self.folder / f"{size % (self.step + 1)}.jsonl").write_text(rows([7])[:size])

    def other(self, size):
        (self.folder / "train.log").write_text("x" * size)
        (self.folder / "report.html").write_text("<html>" + "x" * size)

    def empty(self, size):
        (self.folder / f"{self.step}.jsonl").touch()


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(moves=st.lists(st.tuples(st.sampled_from(MOVES), st.integers(1, 700)), max_size=8))
def test_the_end_is_what_diagnose_says(moves, tmp_path_factory):
    place = tmp_path_factory.mktemp("watch")
    job = Job(place / "job")
    watching = watcher(job.folder, place)
    job.append(1000)
    for name, size in [*moves, ("append", 300)]:
        getattr(job, name)(size)
        watching.look()
    same(watching.finish(), job.folder)


def replayed(name, tmp_path):
    """Copy the files of a real run one by one, and look after each."""
    run = tmp_path / "run"
    watching = watcher(run, tmp_path)
    looks = []
    for file in sorted(one for one in (DATA / name).rglob("*") if one.is_file()):
        place = run / file.relative_to(DATA / name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
        looks.append(watching.look())
    return run, watching, looks


@pytest.mark.parametrize("name", ["verl_legacy", "trl_plain", "trl_evaluated", "swift_plain"])
def test_real_runs_written_file_by_file(name, tmp_path):
    run, watching, looks = replayed(name, tmp_path)
    same(looks[-1], run)
    same(watching.finish(), run)


def test_metrics_and_settings_beside_the_watched_folder_are_read(tmp_path):
    shutil.copytree(DATA / "trl_plain", tmp_path / "run")
    completions = tmp_path / "run" / "completions"
    look = watcher(completions, tmp_path).look()
    assert "loss" in look.diagnosis.run.scalars
    same(look, completions)


def test_hidden_settings_are_read(tmp_path):
    job = Job(tmp_path / "job")
    job.append(2000)
    (job.folder / ".hydra").mkdir()
    (job.folder / ".hydra" / "config.yaml").write_text(SETTINGS)
    look = watcher(job.folder, tmp_path).look()
    assert look.diagnosis.run.facts.max_generation_batches == 10


def test_settings_that_come_late_are_in_the_last_look(tmp_path):
    job = Job(tmp_path / "job")
    job.append(2000)
    watching = watcher(job.folder, tmp_path)
    watching.look()
    (job.folder / "config.yaml").write_text(SETTINGS)
    same(watching.finish(), job.folder)


def test_a_checkpoint_is_not_kept_on_the_disc(tmp_path):
    job = Job(tmp_path / "job")
    job.append(2000)
    weights = job.folder / "checkpoint-1" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(bytes(range(256)) * 100)
    watching = watcher(job.folder, tmp_path)
    watching.look()
    assert weights.stat().st_nlink == 1
    assert not list((tmp_path / "held").rglob("*.safetensors"))


def test_what_is_written_beside_the_rollouts_is_no_news(tmp_path):
    job = Job(tmp_path / "job")
    job.append(2000)
    watching = watcher(job.folder, tmp_path, own=[job.folder / "own.jsonl"])
    assert watching.look().changed
    for size in range(3):
        job.other(size)
        (job.folder / "own.jsonl").write_text(rows([size]))
        assert not watching.look().changed


def test_a_rotated_file_counts_wherever_it_lies(tmp_path):
    job = Job(tmp_path / "job")
    (job.folder / "log.jsonl.1").write_text(rows(range(3)))  # from before the watch
    (job.folder / "log.jsonl").write_text(rows(range(3, 5)))
    watching = watcher(job.folder, tmp_path)
    assert watching.look().diagnosis.run.groups.n_samples == 30
    (job.folder / "log.jsonl.1").rename(job.folder / "log.jsonl.2")
    (job.folder / "log.jsonl").rename(job.folder / "log.jsonl.1")
    (job.folder / "log.jsonl").write_text(rows([5]))
    assert watching.look().diagnosis.run.groups.n_samples == 36


def test_a_file_that_is_gone_while_it_is_read_is_read_again(tmp_path):
    job = Job(tmp_path / "job")
    job.append(2000)
    calls = []

    def unlucky(files):
        calls.append(files)
        if len(calls) == 1:
            raise FileNotFoundError("gone")
        return diagnose(files)

    watching = Watcher(str(job.folder), unlucky, folder=tmp_path / "held")
    assert watching.look().diagnosis is None
    same(watching.look(), job.folder)
    assert not watching.look().changed


def test_a_file_that_the_user_named_is_read_whatever_its_name(tmp_path):
    file = tmp_path / "rollouts.txt"
    file.write_text(rows(range(3)))
    watching = watcher(file, tmp_path, options=ReadOptions())
    same(watching.look(), file)

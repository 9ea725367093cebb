"""Which files are one run and which are several, and the seeds that they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buttress.logs.reader import ReadOptions
from buttress.logs.runs import seed_of, split_runs

ROLLOUTS = "".join(
    json.dumps({"step": 1, "group": g, "sample": s, "reward": s % 2}) + "\n"
    for g in range(4)
    for s in range(4)
)
METRICS = "".join(json.dumps({"step": n, "loss": 0.1, "grad_norm": 0.2}) + "\n" for n in range(5))
STATE = json.dumps({"log_history": [{"step": 1, "loss": 0.5}], "global_step": 1})


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def split(*given, **options):
    return split_runs([str(one) for one in given], ReadOptions(**options))


@pytest.mark.parametrize(
    "files",
    [
        ["rollouts.jsonl"],
        ["1.jsonl", "2.jsonl", "10.jsonl"],
        ["shard-00001.jsonl", "shard-00002.jsonl"],
        ["rank_0/rollouts.jsonl", "rank_1/rollouts.jsonl"],
        ["step_1/rank_0.jsonl", "step_2/rank_0.jsonl"],
        ["train/1.jsonl", "val/1.jsonl"],
        ["rollouts/1.jsonl", "completions/1.jsonl"],
    ],
)
def test_parts_of_one_run(tmp_path, files):
    written(tmp_path / "run", **dict.fromkeys(files, ROLLOUTS))
    assert len(split(tmp_path / "run")) == 1
    assert len(split(*(tmp_path / "run" / name for name in files))) == 1


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a/rollouts.jsonl", "b/rollouts.jsonl"], ["a", "b"]),
        (["seed0/1.jsonl", "seed1/1.jsonl", "seed1/2.jsonl"], ["seed0", "seed1"]),
        (["x/rollouts/1.jsonl", "y/rollouts/1.jsonl"], ["x", "y"]),
        (["grpo-seed1.jsonl", "grpo-seed2.jsonl"], ["seed1", "seed2"]),
        (["a/rank_0/1.jsonl", "a/rank_1/1.jsonl", "b/1.jsonl"], ["a", "b"]),
    ],
)
def test_several_runs(tmp_path, files, names):
    written(tmp_path / "all", **dict.fromkeys(files, ROLLOUTS))
    assert [run.name for run in split(tmp_path / "all")] == names


def test_every_file_is_in_one_run(tmp_path):
    files = ["a/rank_0/1.jsonl", "a/rank_1/1.jsonl", "b/1.jsonl", "b/2.jsonl"]
    written(tmp_path, **dict.fromkeys(files, ROLLOUTS))
    held = [path for run in split(tmp_path) for path in run.paths]
    assert sorted(held) == sorted(str(tmp_path / name) for name in files)


def test_a_path_is_given_on_as_it_was_named(tmp_path):
    written(tmp_path, **{"a/1.jsonl": ROLLOUTS, "b/1.jsonl": ROLLOUTS, "b/2.jsonl": ROLLOUTS})
    runs = split(tmp_path / "a", tmp_path / "b")
    assert [run.paths for run in runs] == [[str(tmp_path / "a")], [str(tmp_path / "b")]]
    by_pattern = split(tmp_path / "*")
    assert [run.name for run in by_pattern] == ["a", "b"]


def test_metrics_go_to_the_run_above_or_below(tmp_path):
    written(
        tmp_path,
        **{
            "a/rollouts/1.jsonl": ROLLOUTS,
            "a/trainer_state.json": STATE,
            "b/rollouts/1.jsonl": ROLLOUTS,
            "b/metrics/metrics.jsonl": METRICS,
        },
    )
    runs = split(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    assert [len(run.paths) for run in runs] == [2, 2]


def test_metrics_beside_the_rollouts_of_one_run_are_of_that_run(tmp_path):
    written(tmp_path, **{"dumps_x/1.jsonl": ROLLOUTS, "tracking/metrics.jsonl": METRICS})
    assert len(split(tmp_path / "dumps_x", tmp_path / "tracking")) == 1


def test_metrics_above_several_runs_are_left_and_said(tmp_path):
    written(
        tmp_path,
        **{"a/1.jsonl": ROLLOUTS, "b/1.jsonl": ROLLOUTS, "trainer_state.json": STATE},
    )
    runs = split(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    assert runs[0].left == [str(tmp_path / "trainer_state.json")]


def test_states_alone_are_runs(tmp_path):
    written(tmp_path, **{"a/trainer_state.json": STATE, "b/checkpoint-5/trainer_state.json": STATE})
    assert [run.name for run in split(tmp_path)] == ["a", "b"]


def test_files_named_one_by_one(tmp_path):
    written(tmp_path, **dict.fromkeys(("grpo.jsonl", "dapo.jsonl", "2.jsonl", "3.jsonl"), ROLLOUTS))
    assert len(split(tmp_path)) == 1
    assert len(split(tmp_path / "grpo.jsonl", tmp_path / "dapo.jsonl")) == 2
    assert len(split(tmp_path / "2.jsonl", tmp_path / "3.jsonl")) == 1


def test_what_is_not_there_stays_to_be_said(tmp_path):
    written(tmp_path, **{"a/1.jsonl": ROLLOUTS, "b/1.jsonl": ROLLOUTS})
    runs = split(tmp_path / "a", tmp_path / "b", tmp_path / "gone")
    assert str(tmp_path / "gone") in runs[0].paths
    assert len(split(tmp_path / "gone")) == 1


@pytest.mark.parametrize(
    ("path", "seed"),
    [
        ("runs/seed0/x.jsonl", 0),
        ("runs/grpo_seed_12", 12),
        ("runs/s2/rollouts", 2),
        ("runs/grpo-s7.jsonl", 7),
        ("runs/seed=3", 3),
        ("runs/steps3", None),
        ("runs/class5", None),
        ("runs/grpo", None),
    ],
)
def test_seeds_in_names(path, seed):
    assert seed_of([path]) == seed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "trainer:\n  seed: 7\n"),
        ("config.json", '{"args": {"seed": 7}}'),
        ("trainer_state.json", '{"log_history": [], "args": {"seed": 7}}'),
    ],
)
def test_seeds_in_settings(tmp_path, name, text):
    written(tmp_path / "run" / "rollouts", **{"1.jsonl": ROLLOUTS})
    written(tmp_path / "run", **{name: text})
    assert seed_of([tmp_path / "run" / "rollouts" / "1.jsonl"]) == 7


def test_seeds_that_disagree_are_none(tmp_path):
    assert seed_of(["seed1/a", "seed2/b"]) is None

"""Metrics from trackers' stores: what was logged is what is read, run by run."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.cli import main
from buttress.errors import InputError, UsageError
from tests.logs.tracking import LOGGED, STORES, column, store, write_events

FORMATS = {"mlflow.db": "mlflow", "mlruns": "mlflow"}
DATA = Path(__file__).parent / "data"


@pytest.fixture
def diagnose(capsys):
    """Diagnose as JSON through the command line; return the exit code and the report."""

    def called(*arguments: object):
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            main(["diagnose", "--json", *map(str, arguments)])
        out, err = capsys.readouterr()
        return done.value.code, json.loads(out) if out else err

    return called


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("run", LOGGED)
def test_values_are_those_that_were_logged(tmp_path, name, run):
    path = store(name, tmp_path)
    found = bt.read(path, run=run)
    assert found.problems == ()
    assert found.source.format == FORMATS.get(name, path.stem.removesuffix("runs") or "tensorboard")
    rounded = np.float32 if name == "tensorboard" else np.float64
    for metric in LOGGED[run][0]:
        scalar = found.scalars[metric]
        assert scalar.step.tolist() == list(range(1, 13))
        logged = np.array(column(run, metric), dtype=rounded)
        np.testing.assert_array_equal(scalar.value.astype(rounded), logged)


@pytest.mark.parametrize("name", ["wandb", "mlflow.db", "mlruns", "trackio.db", "trackio.parquet"])
def test_infinite_values_stay_infinite(tmp_path, name):
    far = bt.read(store(name, tmp_path), run="healthy").scalars["far"]
    assert far.value.tolist() == [np.inf]


@pytest.mark.parametrize("name", STORES)
def test_the_newest_run_is_read_and_the_others_named(tmp_path, name, diagnose):
    path = store(name, tmp_path)
    run = bt.read(path)
    assert run.scalars["frac_reward_zero_std"].value.tolist() == [1.0] * 12
    (problem,) = run.problems
    assert "2 runs: dead" in problem.message
    assert problem.message.endswith("--run healthy")
    assert "metrics: from the run dead" in run.source.inferred[0]
    code, report = diagnose(path, "--run", "healthy")
    assert (code, report["verdict"]) == (0, "healthy")
    code, said = diagnose(path, "--run", "nobody")
    assert code == 2
    assert "no run nobody" in said
    assert "healthy" in said


@pytest.mark.parametrize("name", STORES)
def test_a_collapsed_run_is_found_without_a_rollout(tmp_path, name, diagnose):
    code, report = diagnose(store(name, tmp_path), "--run", "dead", "--fail-on", "warning")
    assert (code, report["verdict"]) == (1, "attention")  # a scalar is no proof
    assert report["source"]["rollouts"] == 0
    assert report["measures"]["acr"] is None
    (found,) = (one for one in report["findings"] if one["rule"] == "advantage-collapse")
    assert found["severity"] == "warning"
    assert found["evidence"]["frac_reward_zero_std"] == 1.0
    assert found["steps"] == [1, 12]


def test_the_run_can_be_named_by_id_or_by_its_path(tmp_path):
    path = store("wandb", tmp_path)
    assert bt.read(path, run="healthy01").scalar("loss").value[0] == 0.01
    (file,) = path.glob("*healthy01/*.wandb")
    assert bt.read(file).problems == ()
    with pytest.raises(UsageError, match="run"):
        bt.read(path, run=3)


def test_a_resumed_run_of_wandb_is_one_run(tmp_path):
    path = store("wandb", tmp_path)
    parts = sorted(path.glob("*dead01/*.wandb"))
    steps = [bt.read(part).scalar("loss").step.tolist() for part in parts]
    assert steps == [list(range(1, 9)), list(range(8, 13))]
    run = bt.read(parts)
    assert run.problems == ()
    assert run.scalar("loss").step.tolist() == list(range(1, 13))
    assert len(run.source.paths) == 2


def test_steps_are_the_trainers_own_and_nested_metrics_are_flat(tmp_path):
    run = bt.read(store("wandb", tmp_path), run="healthy")
    # W&B counts two rows a step; TRL's profiling belongs to the step before it
    assert run.scalars["profiling/Time taken: reward"].step.tolist() == list(range(12))
    assert run.scalars["shape.b.c"].value.tolist() == [2.0]
    assert run.scalars["flag"].value.tolist() == [1.0]
    assert np.isnan(run.scalars["unknown"].value).all()
    assert not {"text", "_runtime", "_timestamp", "train/global_step"} & run.scalars.keys()
    assert not any(name.startswith("lengths") for name in run.scalars)  # a histogram


def test_tensors_of_tensorflow(tmp_path):
    write_events(tmp_path, LOGGED["healthy"], tensors=True)
    run = bt.read(tmp_path)
    np.testing.assert_allclose(run.scalar("loss").value, column("healthy", "loss"), rtol=1e-7)


def test_a_restart_replaces_what_came_after_it(tmp_path):
    rows = LOGGED["healthy"]
    write_events(tmp_path, rows[:9])
    write_events(tmp_path, LOGGED["dead"][5:7], first=6, time=200.0)
    loss = bt.read(tmp_path).scalar("loss")
    assert loss.step.tolist() == list(range(1, 10))
    assert (loss.value == 0).tolist() == [False] * 5 + [True] * 2 + [False] * 2
    write_events(tmp_path, LOGGED["dead"][5:7], first=6, time=300.0, purge=6)
    assert bt.read(tmp_path).scalar("loss").step.tolist() == list(range(1, 8))


def test_a_folder_of_hyperparameters_is_not_the_run(tmp_path):
    write_events(tmp_path / "run", LOGGED["healthy"], time=100.0)
    write_events(tmp_path / "run" / "1796", [{"hparam/accuracy": 0.5}], time=900.0)
    run = bt.read(tmp_path)
    assert len(run.scalar("loss").step) == 12
    assert "2 runs" in run.problems[0].message


def test_tracker_files_beside_rollouts(tmp_path, diagnose):
    shutil.copytree(DATA / "verl_v1", tmp_path / "rollouts")
    wandb = tmp_path / "wandb" / "offline-run-20261201_000001-healthy01"
    shutil.copytree(next(store("wandb", tmp_path).glob("*healthy01")), wandb)
    (wandb / "files").mkdir()
    (wandb / "files" / "wandb-summary.json").write_text('{"_step": 900, "train/loss": 7, "a": 1}')
    (wandb / "files" / "config.yaml").write_text("a: 1")
    (wandb.parent / "latest-run").symlink_to(wandb.name)
    (wandb.parent / "debug.log").write_text("hello")
    _, report = diagnose(tmp_path)
    assert (report["source"]["format"], report["source"]["rollouts"]) == ("verl", 48)
    assert report["problems"] == []
    assert bt.read(tmp_path).scalar("loss").step.max() == 12


def test_a_store_in_use_with_a_log_of_its_own(tmp_path):
    path = store("trackio.db", tmp_path)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("UPDATE metrics SET metrics = ? WHERE id = 2", [b'{"train/loss": 5, "step": 1}'])
    writer.commit()
    assert (tmp_path / "trackio.db-wal").stat().st_size
    run = bt.read(tmp_path, run="healthy")
    assert run.scalar("loss").value[0] == 5.0
    assert run.problems == ()
    writer.close()


@pytest.mark.parametrize("name", ["mlflow.db", "trackio.db"])
def test_nothing_is_written_beside_a_database(tmp_path, name):
    path = store(name, tmp_path)
    before = path.read_bytes()
    bt.read(path, run="healthy")
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert path.read_bytes() == before


def test_deleted_runs_are_read_only_when_named(tmp_path):
    path = store("mlflow.db", tmp_path)
    with sqlite3.connect(path) as writer:
        writer.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'dead'")
    writer.close()
    assert bt.read(path).problems == ()
    assert bt.read(path).scalar("loss").value[0] == 0.01
    assert bt.read(path, run="dead").scalar("loss").value[0] == 0.0


def test_older_databases(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step)")
        rows = [("loss", 0.5, 1, "r", 1), ("loss", 0.25, 2, "r", 2), ("loss", "x", 2, "r", 3)]
        writer.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
    writer.close()
    assert bt.read(path).scalar("loss").value.tolist() == [0.5, 0.25]
    path = tmp_path / "older.db"
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE metrics (id INTEGER, timestamp, run_name, step, metrics)")
        rows = [(at, "2026-01-01", "r", at, json.dumps({"loss": at, "kl": None})) for at in (1, 2)]
        writer.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
    writer.close()
    run = bt.read(path)
    assert run.scalar("loss").value.tolist() == [1.0, 2.0]
    assert np.isnan(run.scalars["kl"].value).all()


def test_a_format_can_be_forced_and_a_table_of_rollouts_is_none_of_trackio(tmp_path):
    with pytest.raises(InputError):
        bt.read(store("mlflow.db", tmp_path), format="trackio")
    assert bt.read(store("mlflow.db", tmp_path), format="mlflow", run="dead").scalars
    path = tmp_path / "rollouts.parquet"
    pl.DataFrame({"step": [1, 1], "group": ["a", "a"], "reward": [0.0, 1.0]}).write_parquet(path)
    assert bt.read(path).source.format == "generic"
